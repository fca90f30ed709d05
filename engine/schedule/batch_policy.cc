#include "engine/schedule/batch_policy.h"

#include <algorithm>
#include <set>

#include "engine/schedule/length_buckets.h"

namespace tributary {
namespace {

// Predicted times are held against deadlines with a quarter on top: the spread of batch times on a shared machine is
// 10-30 %.
constexpr double kSafety = 1.25;
// A batch cut short by a deadline is good enough at this part of a full batch's units per second.
constexpr double kEfficient = 0.9;
// A batch is cut back to a smaller one of better rate only when it loses more than a quarter: padding of up to that is
// the price of fewer, larger batches.
constexpr double kWorthwhile = 0.75;
// Items of a class that do not fit before the next class is tried; bounds the cost of a batch.
constexpr int kMaxMisfits = 8;

using Position = WaitingSet::Position;

Duration Safely(Duration predicted) { return FromSeconds(ToSeconds(predicted) * kSafety); }

Urgency From(TimePoint start_by) { return {start_by, 0}; }
Urgency After(const Urgency& urgency) { return {urgency.start_by, urgency.arrival + 1}; }

double Rate(uint64_t units, Duration time) { return static_cast<double>(units) / std::max(ToSeconds(time), 1e-9); }
double UnitsPerSecond(uint64_t units, const CostModel& cost) { return Rate(units, cost.Predict(units)); }

// Fills one batch around a seed.
class Filler {
 public:
  Filler(const WaitingSet& waiting, const CostModel& cost, const BatchLimits& limits, const BatchSituation& situation,
         std::set<Position>& dead)
      : waiting_(waiting),
        cost_(cost),
        limits_(limits),
        situation_(situation),
        weighs_deadlines_(limits.drop_late && cost.trained()),
        dead_(dead) {}

  // `start_by`: members must be able to wait so long.
  BatchChoice Fill(const Position& seed, TimePoint start_by) {
    if (weighs_deadlines_) first_ = From(start_by);
    Take(seed, waiting_.At(seed));
    const Priority other = seed.priority == Priority::kInteractive ? Priority::kBulk : Priority::kInteractive;
    for (const Priority priority : {seed.priority, other}) FillFrom(priority, seed);
    if (cost_.trained()) CutToWorthwhile();
    return std::move(choice_);
  }

 private:
  void Take(const Position& position, const WorkItem& item) {
    choice_.items.push_back(position);
    choice_.units += item.units;
    units_up_to_.push_back(choice_.units);
    tightest_deadline_ = std::min(tightest_deadline_, item.deadline);
  }

  // Where the last items bring little but padding (130 tokens run as 256), they are better off in the next batch.
  void CutToWorthwhile() {
    double best = 0;
    for (const uint64_t units : units_up_to_) best = std::max(best, UnitsPerSecond(units, cost_));
    while (UnitsPerSecond(units_up_to_.back(), cost_) < kWorthwhile * best) units_up_to_.pop_back();
    choice_.items.resize(units_up_to_.size());
    choice_.units = units_up_to_.back();
  }

  // Classes in order of distance from the seed's; of two at one distance the shorter first.
  void FillFrom(Priority priority, const Position& seed) {
    const WaitingSet::ByLengthClass& classes = waiting_.classes(priority);
    auto longer = classes.lower_bound(seed.length_class);
    auto shorter = longer;
    while (HasRoom() && (longer != classes.end() || shorter != classes.begin())) {
      bool take_shorter = longer == classes.end();
      if (!take_shorter && shorter != classes.begin()) {
        take_shorter = seed.length_class - std::prev(shorter)->first <= longer->first - seed.length_class;
      }
      const auto next = take_shorter ? --shorter : longer++;
      if (LengthClassFloor(next->first) > RoomUnits()) continue;
      FillFromClass({priority, next->first, {}}, next->second, seed);
    }
  }

  void FillFromClass(Position position, const WaitingSet::ByUrgency& members, const Position& seed) {
    auto member = members.lower_bound(first_);
    for (int misfits = 0; member != members.end() && misfits < kMaxMisfits && HasRoom();) {
      position.urgency = member->first;
      const WorkItem& item = *member->second;
      ++member;
      if (position == seed) continue;
      if (const auto dead = WhyDead(item, situation_.now, cost_, situation_.drop_late)) {
        dead_.insert(position);
        if (dead == DropReason::kTooLate) ++misfits;  // on this device: it stays where it is
      } else if (Fits(item)) {
        Take(position, item);
      } else {
        ++misfits;
        // Too urgent itself: on to those that can stand a batch of this size.
        const TimePoint finish = Finish(choice_.units + item.units);
        if (weighs_deadlines_ && item.deadline < finish) {
          const Urgency patient = From(finish - cost_.PredictAtLeast(item.units));
          if (position.urgency < patient) member = members.lower_bound(patient);
        }
      }
    }
  }

  TimePoint Finish(uint64_t units) const { return situation_.start_at + Safely(cost_.Predict(units)); }
  bool HasRoom() const { return choice_.items.size() < limits_.max_items && choice_.units < limits_.max_units; }
  uint64_t RoomUnits() const { return limits_.max_units - std::min(limits_.max_units, choice_.units); }

  bool Fits(const WorkItem& item) const {
    const uint64_t units = choice_.units + item.units;
    if (units > limits_.max_units || cost_.Predict(units) > limits_.max_time) return false;
    return !weighs_deadlines_ || Finish(units) <= std::min(tightest_deadline_, item.deadline);
  }

  const WaitingSet& waiting_;
  const CostModel& cost_;
  const BatchLimits& limits_;
  const BatchSituation& situation_;
  const bool weighs_deadlines_;
  Urgency first_ = From(TimePoint::min());
  TimePoint tightest_deadline_ = kNoDeadline;
  std::set<Position>& dead_;
  std::vector<uint64_t> units_up_to_;  // of the batch, up to and with each item
  BatchChoice choice_;
};

// Finds seeds, noting the dead it meets.
class SeedFinder {
 public:
  SeedFinder(const WaitingSet& waiting, const CostModel& cost, const BatchLimits& limits,
             const BatchSituation& situation, std::set<Position>& dead)
      : waiting_(waiting), cost_(cost), limits_(limits), situation_(situation), dead_(dead) {}

  // Items that would be late on this device, and wait for a faster one, are passed by; after a few of them all that
  // might be such, so that a slow device does not look through the whole queue at each turn.
  std::optional<Position> MostUrgent(Priority priority, Urgency from) {
    const Urgency in_time = From(situation_.now + cost_.PredictAtLeast(limits_.max_units));
    int misfits = 0;
    while (const auto position = waiting_.MostUrgent(priority, from)) {
      const auto dead = WhyDeadAt(*position);
      if (!dead) return position;
      from = After(position->urgency);
      if (dead == DropReason::kTooLate && ++misfits >= kMaxMisfits) from = std::max(from, in_time);
    }
    return std::nullopt;
  }

  // The first item that can wait until `start_by`, of a length class drawn by its share of the waiting work.
  std::optional<Position> Draw(Priority priority, TimePoint start_by) {
    // In full batches.
    const auto work = [this](const auto& entry) {
      const auto items = static_cast<double>(entry.second.size());
      const double units = items * static_cast<double>(LengthClassFloor(entry.first));
      return std::max(units / static_cast<double>(limits_.max_units), items / static_cast<double>(limits_.max_items));
    };
    double left = 0;
    for (const auto& entry : waiting_.classes(priority)) left += work(entry);
    left *= situation_.draw;
    for (const auto& entry : waiting_.classes(priority)) {
      left -= work(entry);
      if (left >= 0) continue;
      for (auto member = entry.second.lower_bound(From(start_by)); member != entry.second.end(); ++member) {
        const Position position{priority, entry.first, member->first};
        if (!WhyDeadAt(position)) return position;
      }
    }
    return MostUrgent(priority, From(start_by));
  }

  std::optional<Position> OldestBulk() {
    uint64_t from = 0;
    while (const auto position = waiting_.Oldest(Priority::kBulk, from)) {
      if (!WhyDeadAt(*position)) return position;
      from = position->urgency.arrival + 1;
    }
    return std::nullopt;
  }

 private:
  std::optional<DropReason> WhyDeadAt(const Position& position) {
    const auto reason = WhyDead(waiting_.At(position), situation_.now, cost_, situation_.drop_late);
    if (reason) dead_.insert(position);
    return reason;
  }

  const WaitingSet& waiting_;
  const CostModel& cost_;
  const BatchLimits& limits_;
  const BatchSituation& situation_;
  std::set<Position>& dead_;
};

// Who is next by urgency: those that can still make it on this lane before those that cannot (they may yet find another
// lane, and are given up in time).
std::optional<Position> UrgentSeed(SeedFinder& seeds, TimePoint start_at) {
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    if (const auto seed = seeds.MostUrgent(priority, From(start_at))) return seed;
    if (const auto seed = seeds.MostUrgent(priority, From(TimePoint::min()))) return seed;
  }
  return std::nullopt;
}

// Units of the batch that could be formed if deadlines did not matter.
uint64_t FullUnits(const WaitingSet& waiting, const CostModel& cost, const BatchLimits& limits) {
  double units = static_cast<double>(std::min(limits.max_units, waiting.units()));
  const double per_item = static_cast<double>(waiting.units()) / static_cast<double>(waiting.items());
  units = std::min(units, per_item * static_cast<double>(limits.max_items));
  const Duration time = cost.Predict(static_cast<uint64_t>(units));
  if (time > limits.max_time) units *= ToSeconds(limits.max_time) / ToSeconds(time);
  return std::max<uint64_t>(1, static_cast<uint64_t>(units));
}

// The smallest batch that reaches `units_per_second`, at most `full_units`.
uint64_t EfficientUnits(uint64_t full_units, double units_per_second, const CostModel& cost) {
  uint64_t low = 1;
  uint64_t high = full_units;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (Rate(middle, cost.PredictUnpadded(middle)) >= units_per_second) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

BatchChoice ChooseByArrival(const WaitingSet& waiting, const BatchLimits& limits, TimePoint now) {
  BatchChoice choice;
  uint64_t largest = 0;
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    uint64_t from = 0;
    while (const auto position = waiting.Oldest(priority, from)) {
      from = position->urgency.arrival + 1;
      const WorkItem& item = waiting.At(*position);
      if (item.cancelled() || item.expired(now)) {
        choice.dead.push_back(*position);
        continue;
      }
      const uint64_t count = choice.items.size() + 1;
      const uint64_t units = limits.padded ? count * std::max(largest, item.units) : choice.units + item.units;
      if (count > limits.max_items || (count > 1 && units > limits.max_units)) return choice;
      largest = std::max(largest, item.units);
      choice.items.push_back(*position);
      choice.units += item.units;
    }
  }
  return choice;
}

}  // namespace

TimePoint StartBy(TimePoint deadline, uint64_t units, const CostModel& cost, bool drop_late) {
  if (deadline == kNoDeadline || !drop_late || !cost.trained()) return deadline;
  return deadline - cost.PredictAtLeast(units);
}

std::optional<DropReason> WhyDead(const WorkItem& item, TimePoint now, const CostModel& cost, bool drop_late) {
  if (item.cancelled()) return DropReason::kCancelled;
  if (item.expired(now)) return DropReason::kExpired;
  if (StartBy(item.deadline, item.units, cost, drop_late) <= now) return DropReason::kTooLate;
  return std::nullopt;
}

bool FillsBatch(const WaitingSet& waiting, const CostModel& cost, const BatchLimits& limits) {
  return waiting.items() >= limits.max_items || waiting.units() >= limits.max_units ||
         cost.Predict(waiting.units()) >= limits.max_time;
}

BatchChoice ChooseBatch(const WaitingSet& waiting, const CostModel& cost, const BatchLimits& limits,
                        const BatchSituation& situation) {
  if (limits.fifo) return ChooseByArrival(waiting, limits, situation.now);
  std::set<Position> dead;
  SeedFinder seeds(waiting, cost, limits, situation, dead);
  std::optional<Position> seed;
  if (situation.turn == Turn::kOldestBulk) seed = seeds.OldestBulk();
  if (situation.turn == Turn::kWithoutDeadline) seed = seeds.MostUrgent(Priority::kInteractive, From(kNoDeadline));
  const bool owed = seed.has_value();
  if (!owed) seed = UrgentSeed(seeds, situation.start_at);

  BatchChoice choice;
  if (seed) {
    choice = Filler(waiting, cost, limits, situation, dead).Fill(*seed, situation.start_at);
    const uint64_t full_units = FullUnits(waiting, cost, limits);
    const double enough = kEfficient * Rate(full_units, cost.PredictUnpadded(full_units));
    if (situation.shedding && !owed && UnitsPerSecond(choice.units, cost) < enough) {
      const uint64_t efficient_units = EfficientUnits(full_units, enough, cost);
      const TimePoint can_wait = situation.start_at + Safely(cost.Predict(efficient_units));
      if (const auto patient = seeds.Draw(seed->priority, can_wait)) {
        BatchChoice other = Filler(waiting, cost, limits, situation, dead).Fill(*patient, can_wait);
        if (kEfficient * UnitsPerSecond(other.units, cost) > UnitsPerSecond(choice.units, cost)) {
          choice = std::move(other);
        }
      }
    }
  }
  // An item may have been cancelled after it was chosen: then it runs.
  for (const Position& position : choice.items) dead.erase(position);
  choice.dead.assign(dead.begin(), dead.end());
  return choice;
}

}  // namespace tributary
