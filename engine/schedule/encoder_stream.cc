#include "engine/schedule/encoder_stream.h"

#include <algorithm>
#include <cmath>

namespace tributary {
namespace {

// For so long after a missed deadline the encoder counts as overloaded. Longer than the deadlines that online clients
// set (tens to hundreds of ms), so that overload is not forgotten from one batch to the next.
constexpr Duration kSheddingMemory = std::chrono::seconds(1);

// For so long after a batch its cost model is fresh enough to give work up. A model learns only from what runs: if it
// could give up all that comes, one wrong prediction (the process was frozen for a while) would close the encoder for
// good.
constexpr Duration kFreshLeast = std::chrono::seconds(1);
constexpr int kFreshBatches = 2;  // or so many times what the batch took, for those that take seconds

// Steps of it spread evenly over [0, 1), however many there are.
constexpr double kGoldenRatio = 0.6180339887498949;

}  // namespace

void EncoderStream::Add(WorkItemPtr item, uint64_t arrival, TimePoint now) {
  const TimePoint start_by = StartBy(item->deadline, item->units, cost_, DropsLate(now));
  waiting_.Add(std::move(item), {start_by, arrival});
}

bool EncoderStream::DropDead(TimePoint now) {
  bool dropped = false;
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    for (;;) {
      const auto first = waiting_.MostUrgent(priority);
      if (!first || first->urgency.start_by > now) break;
      if (const auto reason = WhyDead(waiting_.At(*first), now, cost_, DropsLate(now))) {
        Drop(*first, *reason, now);
        dropped = true;
      } else {
        // Sorted in by an older, higher cost: it has more time than was thought. Its new place is after `now`.
        Add(waiting_.Take(*first), first->urgency.arrival, now);
      }
    }
  }
  return dropped;
}

void EncoderStream::DropAll(DropReason reason) {
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    while (const auto first = waiting_.MostUrgent(priority)) on_drop_(waiting_.Take(*first), reason);
  }
}

void EncoderStream::Drop(const WaitingSet::Position& position, DropReason reason, TimePoint now) {
  if (reason != DropReason::kCancelled) shedding_until_ = now + kSheddingMemory;
  on_drop_(waiting_.Take(position), reason);
}

Batch EncoderStream::Form(TimePoint now, TimePoint start_at) {
  draw_ = std::fmod(draw_ + kGoldenRatio, 1.0);
  const BatchSituation situation{now, start_at, NextTurn(), now < shedding_until_, draw_, DropsLate(now)};
  const BatchChoice choice = ChooseBatch(waiting_, cost_, limits_, situation);
  Batch batch;
  if (!choice.items.empty()) CountTurns(waiting_.At(choice.items.front()));
  for (const WaitingSet::Position& position : choice.dead) {
    const auto reason = WhyDead(waiting_.At(position), now, cost_, situation.drop_late);
    Drop(position, reason.value_or(DropReason::kCancelled), now);
  }
  batch.modality = modality_;
  batch.useful_units = choice.units;
  batch.predicted_time = cost_.Predict(choice.units);
  batch.formed_at = now;
  batch.items.reserve(choice.items.size());
  for (const WaitingSet::Position& position : choice.items) {
    batch.items.push_back(waiting_.Take(position));
    batch.items.back()->times.batched = now;
  }
  return batch;
}

bool EncoderStream::DropsLate(TimePoint now) const {
  return limits_.drop_late && now < fresh_until_ && !cost_.overestimates();
}

Turn EncoderStream::NextTurn() const {
  if (batches_since_bulk_ + 1 >= bulk_every_) return Turn::kOldestBulk;
  if (batches_since_no_deadline_ + 1 >= bulk_every_) return Turn::kWithoutDeadline;
  return Turn::kMostUrgent;
}

void EncoderStream::CountTurns(const WorkItem& seed) {
  const bool bulk_waits = waiting_.Oldest(Priority::kBulk).has_value();
  const bool no_deadline_waits = waiting_.MostUrgent(Priority::kInteractive, {kNoDeadline, 0}).has_value();
  const bool bulk = seed.priority == Priority::kBulk;
  batches_since_bulk_ = bulk || !bulk_waits ? 0 : batches_since_bulk_ + 1;
  const bool no_deadline = !bulk && seed.deadline == kNoDeadline;
  batches_since_no_deadline_ = no_deadline || !no_deadline_waits ? 0 : batches_since_no_deadline_ + 1;
}

void EncoderStream::Observe(const BatchOutcome& outcome, TimePoint now) {
  if (!outcome.status.ok() || outcome.device_time <= Duration::zero()) return;
  cost_.Observe(outcome.useful_units, outcome.device_time);
  fresh_until_ = now + std::max(kFreshLeast, kFreshBatches * outcome.device_time);
}

TimePoint EncoderStream::WaitsUntil() const {
  if (max_wait_ <= Duration::zero() || waiting_.empty()) return TimePoint{};
  // Never more than half of the time that the most urgent item has left.
  const TimePoint oldest = waiting_.OldestQueued();
  const TimePoint start_by = waiting_.EarliestStartBy();
  if (start_by == kNoDeadline) return oldest + max_wait_;
  return oldest + std::min(max_wait_, (start_by - oldest) / 2);
}

}  // namespace tributary
