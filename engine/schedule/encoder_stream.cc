#include "engine/schedule/encoder_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/queue/drop_item.h"
#include "engine/schedule/length_buckets.h"

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

// A replica whose batches fail is left alone for a while, while another one's do not: it fails at once, is always free,
// and would draw all work to itself. The pause doubles with each failure, from what one batch takes to what an operator
// may wait for the device to be found well again.
constexpr Duration kFirstPause = std::chrono::milliseconds(10);
constexpr size_t kMaxDoublings = 10;  // about ten seconds

// Steps of it spread evenly over [0, 1), however many there are.
constexpr double kGoldenRatio = 0.6180339887498949;

}  // namespace

EncoderStream::EncoderStream(const EncoderSpec& spec, const ScheduleOptions& options, OnDrop on_drop)
    : modality_(spec.modality),
      max_wait_(options.modalities[static_cast<size_t>(spec.modality)].max_wait),
      bulk_every_(options.bulk_every),
      on_drop_(std::move(on_drop)) {
  const Duration max_time = options.modalities[static_cast<size_t>(spec.modality)].max_batch_time;
  const CostModel cost(modality_ == Modality::kText ? &RoundedTokenTotal : &CostModel::NoPadding);
  for (const ReplicaSpec& replica : spec.replicas) {
    if (replicas_.size() <= replica.device) replicas_.resize(replica.device + 1);
    replicas_[replica.device] = Replica{.program = replica.program,
                                        .limits = {replica.max_units, replica.max_items, max_time, options.drop_late,
                                                   options.batching != "packed", options.batching == "fifo_padded"},
                                        .cost = cost,
                                        .fresh_until = {},
                                        .failed_in_a_row = 0,
                                        .retry_at = {}};
  }
}

void EncoderStream::Add(WorkItemPtr item, uint64_t arrival, TimePoint now) {
  const TimePoint start_by = StartByOnAny(*item, now);
  waiting_.Add(std::move(item), {start_by, arrival});
}

bool EncoderStream::DropDead(TimePoint now) {
  bool dropped = false;
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    for (;;) {
      const auto first = waiting_.MostUrgent(priority);
      if (!first || first->urgency.start_by > now) break;
      if (const auto reason = WhyDeadOnAll(waiting_.At(*first), now)) {
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

Batch EncoderStream::Form(size_t device, TimePoint now, TimePoint start_at) {
  const Replica& replica = *replicas_[device];
  draw_ = std::fmod(draw_ + kGoldenRatio, 1.0);
  const BatchSituation situation{now, start_at, NextTurn(), now < shedding_until_, draw_, replica.DropsLate(now)};
  const BatchChoice choice = ChooseBatch(waiting_, replica.cost, replica.limits, situation);
  Batch batch;
  if (!choice.items.empty()) CountTurns(waiting_.At(choice.items.front()));
  for (const WaitingSet::Position& position : choice.dead) {
    // Too late here may be in time elsewhere: then it goes on waiting.
    if (const auto reason = WhyDeadOnAll(waiting_.At(position), now)) Drop(position, *reason, now);
  }
  batch.modality = modality_;
  batch.program = replica.program;
  batch.useful_units = choice.units;
  batch.predicted_time = replica.cost.Predict(choice.units);
  batch.formed_at = now;
  batch.items.reserve(choice.items.size());
  for (const WaitingSet::Position& position : choice.items) {
    batch.items.push_back(waiting_.Take(position));
    // An item may have been queued since the turn began.
    ItemTimes& times = batch.items.back()->times;
    times.batched = std::max(now, times.queued);
  }
  return batch;
}

bool EncoderStream::Full(size_t device) const {
  return FillsBatch(waiting_, replicas_[device]->cost, replicas_[device]->limits);
}

Duration EncoderStream::Expected(size_t device) const {
  const Replica& replica = *replicas_[device];
  return replica.cost.Predict(std::min(waiting_.units(), replica.limits.max_units));
}

TimePoint EncoderStream::AvoidsUntil(size_t device) const {
  const Replica& replica = *replicas_[device];
  const bool other_is_well = std::any_of(replicas_.begin(), replicas_.end(), [](const std::optional<Replica>& other) {
    return other && other->failed_in_a_row == 0;
  });
  return replica.failed_in_a_row > 0 && other_is_well ? replica.retry_at : TimePoint{};
}

bool EncoderStream::Replica::DropsLate(TimePoint now) const {
  return limits.drop_late && now < fresh_until && !cost.overestimates();
}

// The latest start at which the item is in time, alone, on the device that is best for it.
TimePoint EncoderStream::StartByOnAny(const WorkItem& item, TimePoint now) const {
  TimePoint latest = TimePoint::min();
  for (const std::optional<Replica>& replica : replicas_) {
    if (!replica) continue;
    latest = std::max(latest, StartBy(item.deadline, item.units, replica->cost, replica->DropsLate(now)));
  }
  return latest;
}

std::optional<DropReason> EncoderStream::WhyDeadOnAll(const WorkItem& item, TimePoint now) const {
  if (const auto dead = DeadReason(item, now)) return dead;
  if (StartByOnAny(item, now) <= now) return DropReason::kTooLate;
  return std::nullopt;
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

void EncoderStream::Observe(size_t device, const BatchOutcome& outcome, TimePoint now) {
  Replica& replica = *replicas_[device];
  if (!outcome.status.ok()) {
    replica.retry_at = now + kFirstPause * (int64_t{1} << std::min(replica.failed_in_a_row, kMaxDoublings));
    ++replica.failed_in_a_row;
    return;
  }
  if (outcome.device_time <= Duration::zero()) return;
  replica.failed_in_a_row = 0;
  replica.cost.Observe(outcome.useful_units, outcome.device_time);
  replica.fresh_until = now + std::max(kFreshLeast, kFreshBatches * outcome.device_time);
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
