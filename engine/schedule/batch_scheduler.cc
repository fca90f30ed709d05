#include "engine/schedule/batch_scheduler.h"

#include <algorithm>
#include <compare>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/queue/drop_item.h"
#include "engine/schedule/encoder_stream.h"
#include "engine/schedule/fair_share.h"
#include "engine/schedule/lane_load.h"

namespace tributary {
namespace {

// A batch handed over in advance must be there before the running one ends: packing and copying in take a part of a
// batch's time, and predictions are off by up to a quarter. When it comes too late after all, the lane's report wakes
// the scheduler at once.
constexpr int kAdvancePart = 4;
constexpr Duration kAdvanceLeast = std::chrono::milliseconds(1);

// What a failed batch is charged at least: about what a batch takes that runs. An encoder that fails at once must not
// look cheap and take every turn, also before anything is known of its cost.
constexpr Duration kFailedCharge = std::chrono::milliseconds(10);

// What threw may throw again: the thread must not spin on it.
constexpr Duration kPauseAfterException = std::chrono::milliseconds(10);

std::vector<double> ModalityWeights(const ScheduleOptions& options) {
  std::vector<double> weights;
  weights.reserve(options.modalities.size());
  for (const BatchOptions& modality : options.modalities) weights.push_back(modality.weight);
  return weights;
}

}  // namespace

struct BatchScheduler::State {
  State(const ScheduleOptions& options, const std::vector<EncoderSpec>& encoders,
        std::array<ModalityQueue<WorkItemPtr>*, kModalityCount> modality_queues, BatchExecutor* batch_executor,
        const Clock* steady_clock, Observer* item_observer)
      : queues(modality_queues),
        executor(batch_executor),
        clock(steady_clock),
        observer(item_observer),
        modality_share(ModalityWeights(options)),
        encoder_shares(kModalityCount, FairShare(std::vector<double>(encoders.size(), 1.0))),
        lanes(batch_executor->LaneCount()) {
    const auto on_drop = [this](WorkItemPtr item, DropReason reason) { Drop(std::move(item), reason); };
    for (const EncoderSpec& spec : encoders) {
      const BatchOptions& limits = options.modalities[static_cast<size_t>(spec.modality)];
      streams.emplace_back(spec.modality,
                           BatchLimits{spec.max_units, spec.max_items, limits.max_batch_time, options.drop_late},
                           limits.max_wait, options.bulk_every, on_drop);
    }
  }

  void Drop(WorkItemPtr item, DropReason reason) { DropItem(*item, reason, observer); }

  bool TakeQueued(TimePoint now);
  void TakeOutcome(const BatchOutcome& outcome, TimePoint now);
  bool DropDead(TimePoint now);
  bool Dispatch(TimePoint now);
  bool DispatchTo(size_t lane, TimePoint now);
  TimePoint HeldUntil(const EncoderStream& stream, size_t lane, TimePoint now) const;
  void WakeBy(TimePoint moment) { wake_at = std::min(wake_at, moment); }
  WaitingSnapshot Count(Modality modality) const;

  const std::array<ModalityQueue<WorkItemPtr>*, kModalityCount> queues;
  BatchExecutor* const executor;
  const Clock* const clock;
  Observer* const observer;
  std::deque<EncoderStream> streams;      // index: EncoderIndex
  FairShare modality_share;               // index: Modality
  std::vector<FairShare> encoder_shares;  // index: Modality; each between its encoders, by EncoderIndex
  LaneLoad lanes;
  uint64_t arrivals = 0;
  uint64_t batches = 0;
  TimePoint wake_at = kNoDeadline;  // when there is something to do even if nothing is reported
};

bool BatchScheduler::State::TakeQueued(TimePoint now) {
  bool took = false;
  for (ModalityQueue<WorkItemPtr>* queue : queues) {
    if (queue == nullptr) continue;
    while (std::optional<WorkItemPtr> item = queue->TryPop()) {
      const EncoderIndex encoder = (*item)->encoder;
      const Modality modality = streams[encoder].modality();
      const bool modality_idle = std::all_of(streams.begin(), streams.end(), [&](const EncoderStream& stream) {
        return stream.modality() != modality || stream.waiting().empty();
      });
      if (modality_idle) modality_share.Activate(static_cast<size_t>(modality));
      if (streams[encoder].waiting().empty()) encoder_shares[static_cast<size_t>(modality)].Activate(encoder);
      streams[encoder].Add(std::move(*item), ++arrivals, now);
      took = true;
    }
  }
  return took;
}

void BatchScheduler::State::TakeOutcome(const BatchOutcome& outcome, TimePoint now) {
  lanes.Done(outcome.lane, outcome.sequence, now);
  streams[outcome.encoder].Observe(outcome, now);
  const Duration charge = outcome.status.ok() ? outcome.device_time
                                              : std::max({outcome.device_time, outcome.predicted_time, kFailedCharge});
  const auto modality = static_cast<size_t>(outcome.modality);
  modality_share.Correct(modality, outcome.predicted_time, charge);
  encoder_shares[modality].Correct(outcome.encoder, outcome.predicted_time, charge);
}

bool BatchScheduler::State::DropDead(TimePoint now) {
  bool dropped = false;
  for (EncoderStream& stream : streams) dropped |= stream.DropDead(now);
  return dropped;
}

bool BatchScheduler::State::Dispatch(TimePoint now) {
  struct Candidate {
    size_t in_flight;
    Duration remaining;
    size_t lane;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  bool dispatched = false;
  for (bool again = true; again;) {
    // The emptiest lane first; of equals the one that will be free first. (Read once: lanes go on meanwhile.)
    candidates.clear();
    for (size_t lane = 0; lane < executor->LaneCount(); ++lane) {
      if (executor->FreeSlots(lane) == 0) continue;
      candidates.push_back({executor->InFlight(lane), lanes.Remaining(lane, now), lane});
    }
    std::sort(candidates.begin(), candidates.end());
    again = std::any_of(candidates.begin(), candidates.end(),
                        [&](const Candidate& candidate) { return DispatchTo(candidate.lane, now); });
    dispatched |= again;
  }
  return dispatched;
}

// Hands one batch to the lane, of the modality that is next by its share, and there of the encoder that is next.
bool BatchScheduler::State::DispatchTo(size_t lane, TimePoint now) {
  std::vector<EncoderIndex> order;
  for (size_t i = 0; i < streams.size(); ++i) {
    const auto encoder = static_cast<EncoderIndex>(i);
    if (!streams[i].waiting().empty() && executor->Serves(lane, encoder)) order.push_back(encoder);
  }
  std::sort(order.begin(), order.end(), [&](EncoderIndex a, EncoderIndex b) {
    const auto key = [&](EncoderIndex encoder) {
      const auto modality = static_cast<size_t>(streams[encoder].modality());
      return std::tuple(modality_share.VirtualTime(modality), modality, encoder_shares[modality].VirtualTime(encoder),
                        encoder);
    };
    return key(a) < key(b);
  });
  for (const EncoderIndex encoder : order) {
    EncoderStream& stream = streams[encoder];
    if (const TimePoint held_until = HeldUntil(stream, lane, now); held_until > now) {
      WakeBy(held_until);
      continue;
    }
    Batch batch = stream.Form(now, now + lanes.Remaining(lane, now));
    if (batch.items.empty()) continue;
    batch.sequence = ++batches;
    batch.encoder = encoder;
    modality_share.Charge(static_cast<size_t>(batch.modality), batch.predicted_time);
    encoder_shares[static_cast<size_t>(batch.modality)].Charge(encoder, batch.predicted_time);
    lanes.Started(lane, batch.sequence, batch.predicted_time, now);
    executor->Execute(lane, std::move(batch));
    return true;
  }
  return false;
}

TimePoint BatchScheduler::State::HeldUntil(const EncoderStream& stream, size_t lane, TimePoint now) const {
  TimePoint until = stream.Full() ? now : stream.WaitsUntil();
  if (executor->InFlight(lane) > 0) {
    const Duration margin = std::max(kAdvanceLeast, lanes.Predicted(lane) / kAdvancePart);
    until = std::max(until, now + lanes.Remaining(lane, now) - margin);
  }
  return until;
}

WaitingSnapshot BatchScheduler::State::Count(Modality modality) const {
  WaitingSnapshot count;
  for (const EncoderStream& stream : streams) {
    if (stream.modality() != modality || stream.waiting().empty()) continue;
    const TimePoint oldest = stream.waiting().OldestQueued();
    count.oldest_queued = count.items == 0 ? oldest : std::min(count.oldest_queued, oldest);
    count.items += stream.waiting().items();
  }
  return count;
}

BatchScheduler::BatchScheduler(const ScheduleOptions& options, const std::vector<EncoderSpec>& encoders,
                               std::array<ModalityQueue<WorkItemPtr>*, kModalityCount> queues, BatchExecutor* executor,
                               const Clock* clock, Observer* observer)
    : state_(std::make_unique<State>(options, encoders, queues, executor, clock, observer)) {
  executor->SetListener(this);
}

BatchScheduler::~BatchScheduler() { Stop(); }

void BatchScheduler::Start() {
  thread_ = WorkerThread("trib-sched", [this] { Run(); });
}

void BatchScheduler::Stop() {
  stopping_.store(true, std::memory_order_relaxed);  // seen by Run after the Notify
  parker_.Notify();
  thread_.Join();
  state_->TakeQueued(state_->clock->Now());
  for (EncoderStream& stream : state_->streams) stream.DropAll(DropReason::kShutdown);
  Publish();
}

void BatchScheduler::NotifyQueued() { parker_.Notify(); }

void BatchScheduler::Run() {
  for (;;) {
    const uint64_t ticket = parker_.Ticket();
    if (stopping_.load(std::memory_order_relaxed)) return;
    bool did = false;
    try {
      did = RunOnce();
    } catch (...) {
      // Out of memory, or an item's sink threw. The item in hand answers from its destructor if it has not; all else is
      // where it was.
      state_->WakeBy(state_->clock->Now() + kPauseAfterException);
    }
    if (!did) parker_.Park(ticket, state_->wake_at);
  }
}

bool BatchScheduler::RunOnce() {
  const TimePoint now = state_->clock->Now();
  state_->wake_at = kNoDeadline;
  std::vector<BatchOutcome> outcomes;
  {
    MutexLock lock(outcomes_mutex_);
    outcomes.swap(outcomes_);
  }
  for (const BatchOutcome& outcome : outcomes) state_->TakeOutcome(outcome, now);
  bool did = !outcomes.empty();
  did |= state_->TakeQueued(now);
  did |= state_->DropDead(now);
  did |= state_->Dispatch(now);
  for (const EncoderStream& stream : state_->streams) state_->WakeBy(stream.NextDrop());
  Publish();
  return did;
}

void BatchScheduler::Publish() {
  for (const Modality modality : kAllModalities) {
    const WaitingSnapshot count = state_->Count(modality);
    Gauge& gauge = gauges_[static_cast<size_t>(modality)];
    gauge.items.store(count.items, std::memory_order_relaxed);
    gauge.oldest_queued_nanos.store(count.oldest_queued.time_since_epoch().count(), std::memory_order_relaxed);
  }
}

WaitingSnapshot BatchScheduler::Waiting(Modality modality) const {
  const Gauge& gauge = gauges_[static_cast<size_t>(modality)];
  return {gauge.items.load(std::memory_order_relaxed),
          TimePoint(Duration(gauge.oldest_queued_nanos.load(std::memory_order_relaxed)))};
}

void BatchScheduler::OnBatchDone(const BatchOutcome& outcome) {
  {
    MutexLock lock(outcomes_mutex_);
    outcomes_.push_back(outcome);
  }
  parker_.Notify();
}

}  // namespace tributary
