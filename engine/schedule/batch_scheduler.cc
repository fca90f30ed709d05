#include "engine/schedule/batch_scheduler.h"

#include <algorithm>
#include <compare>
#include <map>
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
  State(const ScheduleOptions& schedule_options, const std::vector<EncoderSpec>& encoders,
        std::array<ModalityQueue<WorkItemPtr>*, kModalityCount> modality_queues, BatchExecutor* batch_executor,
        const Clock* steady_clock, Observer* item_observer)
      : queues(modality_queues),
        executor(batch_executor),
        clock(steady_clock),
        observer(item_observer),
        options(schedule_options),
        lanes(batch_executor->LaneCount()) {
    size_t devices = 0;
    for (size_t lane = 0; lane < executor->LaneCount(); ++lane) {
      devices = std::max(devices, executor->DeviceOf(lane) + 1);
    }
    shares.resize(devices, Shares{.modalities = FairShare(ModalityWeights(options)), .encoders = {}});
    for (size_t i = 0; i < encoders.size(); ++i) AddEncoder(static_cast<EncoderIndex>(i), encoders[i]);
  }

  void AddEncoder(EncoderIndex encoder, const EncoderSpec& spec) {
    if (in_flight.size() <= encoder) in_flight.resize(encoder + 1);
    streams.try_emplace(encoder, spec, options,
                        [this](WorkItemPtr item, DropReason reason) { Drop(std::move(item), reason); });
    for (Shares& of_device : shares) of_device.encoders[static_cast<size_t>(spec.modality)].Begin(encoder, 1.0);
  }

  void Drop(WorkItemPtr item, DropReason reason) { DropItem(*item, reason, observer); }

  // Who is next on one device.
  struct Shares {
    FairShare modalities;                            // index: Modality
    std::array<FairShare, kModalityCount> encoders;  // index: Modality; each between its encoders, by EncoderIndex
  };

  void Activate(EncoderIndex encoder);
  bool TakeQueued(TimePoint now);
  void TakeOutcome(const BatchOutcome& outcome, TimePoint now);
  bool DropDead(TimePoint now);
  Duration Expected(size_t device) const;
  bool Dispatch(TimePoint now);
  bool DispatchTo(size_t lane, TimePoint now);
  TimePoint HeldUntil(const EncoderStream& stream, size_t lane, TimePoint now) const;
  void WakeBy(TimePoint moment) { wake_at = std::min(wake_at, moment); }
  WaitingSnapshot Count(Modality modality) const;

  const std::array<ModalityQueue<WorkItemPtr>*, kModalityCount> queues;
  BatchExecutor* const executor;
  const Clock* const clock;
  Observer* const observer;
  const ScheduleOptions options;
  std::map<EncoderIndex, EncoderStream> streams;
  std::vector<size_t> in_flight;  // batches; index: EncoderIndex
  std::vector<Shares> shares;     // index: device
  LaneLoad lanes;
  uint64_t arrivals = 0;
  uint64_t batches = 0;
  TimePoint wake_at = kNoDeadline;  // when there is something to do even if nothing is reported
};

// The encoder had nothing waiting and is about to have: on each of its devices it begins anew, and its modality if none
// of its other encoders there has work.
void BatchScheduler::State::Activate(EncoderIndex encoder) {
  const EncoderStream& stream = streams.at(encoder);
  const Modality modality = stream.modality();
  for (size_t device = 0; device < shares.size(); ++device) {
    if (!stream.On(device)) continue;
    const bool modality_idle = std::all_of(streams.begin(), streams.end(), [&](const auto& entry) {
      const EncoderStream& other = entry.second;
      return other.modality() != modality || !other.On(device) || other.waiting().empty();
    });
    if (modality_idle) shares[device].modalities.Activate(static_cast<size_t>(modality));
    shares[device].encoders[static_cast<size_t>(modality)].Activate(encoder);
  }
}

bool BatchScheduler::State::TakeQueued(TimePoint now) {
  bool took = false;
  for (ModalityQueue<WorkItemPtr>* queue : queues) {
    if (queue == nullptr) continue;
    while (std::optional<WorkItemPtr> item = queue->TryPop()) {
      const EncoderIndex encoder = (*item)->encoder;
      EncoderStream& stream = streams.at(encoder);
      if (stream.waiting().empty()) Activate(encoder);
      stream.Add(std::move(*item), ++arrivals, now);
      took = true;
    }
  }
  return took;
}

void BatchScheduler::State::TakeOutcome(const BatchOutcome& outcome, TimePoint now) {
  lanes.Done(outcome.lane, outcome.sequence, now);
  --in_flight[outcome.encoder];
  const size_t device = executor->DeviceOf(outcome.lane);
  streams.at(outcome.encoder).Observe(device, outcome, now);
  const Duration charge = outcome.status.ok() ? outcome.device_time
                                              : std::max({outcome.device_time, outcome.predicted_time, kFailedCharge});
  const auto modality = static_cast<size_t>(outcome.modality);
  shares[device].modalities.Correct(modality, outcome.predicted_time, charge);
  shares[device].encoders[modality].Correct(outcome.encoder, outcome.predicted_time, charge);
}

bool BatchScheduler::State::DropDead(TimePoint now) {
  bool dropped = false;
  for (auto& [encoder, stream] : streams) dropped |= stream.DropDead(now);
  return dropped;
}

// The least that a batch of what waits would take on this device.
Duration BatchScheduler::State::Expected(size_t device) const {
  Duration least = Duration::max();
  for (const auto& [encoder, stream] : streams) {
    if (stream.On(device) && !stream.waiting().empty()) least = std::min(least, stream.Expected(device));
  }
  return least == Duration::max() ? Duration::zero() : least;
}

bool BatchScheduler::State::Dispatch(TimePoint now) {
  struct Candidate {
    Duration finish;  // of a batch handed over now, by prediction
    size_t in_flight;
    size_t lane;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  std::vector<Duration> expected;  // index: device
  bool dispatched = false;
  for (bool again = true; again;) {
    // The lane first that would be done first; of equals, above all while nothing is known, the emptiest. (Read once:
    // lanes go on meanwhile.)
    candidates.clear();
    expected.clear();
    for (size_t device = 0; device < shares.size(); ++device) expected.push_back(Expected(device));
    for (size_t lane = 0; lane < executor->LaneCount(); ++lane) {
      if (executor->FreeSlots(lane) == 0) continue;
      const Duration finish = lanes.Remaining(lane, now) + expected[executor->DeviceOf(lane)];
      candidates.push_back({finish, executor->InFlight(lane), lane});
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
  const size_t device = executor->DeviceOf(lane);
  Shares& share = shares[device];
  std::vector<EncoderIndex> order;
  for (const auto& [encoder, stream] : streams) {
    if (!stream.waiting().empty() && stream.On(device)) order.push_back(encoder);
  }
  std::sort(order.begin(), order.end(), [&](EncoderIndex a, EncoderIndex b) {
    const auto key = [&](EncoderIndex encoder) {
      const auto modality = static_cast<size_t>(streams.at(encoder).modality());
      return std::tuple(share.modalities.VirtualTime(modality), modality, share.encoders[modality].VirtualTime(encoder),
                        encoder);
    };
    return key(a) < key(b);
  });
  for (const EncoderIndex encoder : order) {
    EncoderStream& stream = streams.at(encoder);
    if (const TimePoint held_until = HeldUntil(stream, lane, now); held_until > now) {
      WakeBy(held_until);
      continue;
    }
    Batch batch = stream.Form(device, now, now + lanes.Remaining(lane, now));
    if (batch.items.empty()) continue;
    batch.sequence = ++batches;
    batch.encoder = encoder;
    share.modalities.Charge(static_cast<size_t>(batch.modality), batch.predicted_time);
    share.encoders[static_cast<size_t>(batch.modality)].Charge(encoder, batch.predicted_time);
    lanes.Started(lane, batch.sequence, batch.predicted_time, now);
    ++in_flight[encoder];
    executor->Execute(lane, std::move(batch));
    return true;
  }
  return false;
}

TimePoint BatchScheduler::State::HeldUntil(const EncoderStream& stream, size_t lane, TimePoint now) const {
  const size_t device = executor->DeviceOf(lane);
  TimePoint until = std::max(stream.Full(device) ? now : stream.WaitsUntil(), stream.AvoidsUntil(device));
  if (executor->InFlight(lane) > 0) {
    const Duration margin = std::max(kAdvanceLeast, lanes.Predicted(lane) / kAdvancePart);
    until = std::max(until, now + lanes.Remaining(lane, now) - margin);
  }
  return until;
}

WaitingSnapshot BatchScheduler::State::Count(Modality modality) const {
  WaitingSnapshot count;
  for (const auto& [encoder, stream] : streams) {
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
  {
    MutexLock lock(inbox_mutex_);  // whoever awaits a change is then either before its test or inside the wait
    change_done_.NotifyAll();
  }
  thread_.Join();
  state_->TakeQueued(state_->clock->Now());
  for (auto& [encoder, stream] : state_->streams) stream.DropAll(DropReason::kShutdown);
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
  {
    MutexLock lock(inbox_mutex_);
    pending_changes_.insert(pending_changes_.end(), changes_.begin(), changes_.end());
    changes_.clear();
    if (taken_outcomes_.empty()) taken_outcomes_.swap(outcomes_);
  }
  // One by one: whatever throws, none is taken in twice, and none is lost.
  bool did = !taken_outcomes_.empty();
  std::reverse(taken_outcomes_.begin(), taken_outcomes_.end());
  while (!taken_outcomes_.empty()) {
    const BatchOutcome outcome = std::move(taken_outcomes_.back());
    taken_outcomes_.pop_back();
    state_->TakeOutcome(outcome, now);
  }
  if (!pending_changes_.empty()) did |= TakeChanges();
  did |= state_->TakeQueued(now);
  did |= state_->DropDead(now);
  did |= state_->Dispatch(now);
  for (const auto& [encoder, stream] : state_->streams) state_->WakeBy(stream.NextDrop());
  Publish();
  return did;
}

// Makes the changes that are possible now. A removal waits for its batches: each outcome brings a turn.
bool BatchScheduler::TakeChanges() {
  bool made = false;
  for (size_t i = 0; i < pending_changes_.size();) {
    const std::shared_ptr<Change> change = pending_changes_[i];
    if (change->spec) {
      state_->AddEncoder(change->encoder, *change->spec);
    } else if (state_->in_flight[change->encoder] > 0) {
      ++i;
      continue;
    } else {
      state_->streams.erase(change->encoder);
    }
    pending_changes_.erase(pending_changes_.begin() + static_cast<std::ptrdiff_t>(i));
    made = true;
    MutexLock lock(inbox_mutex_);
    change->done = true;
    change_done_.NotifyAll();
  }
  return made;
}

bool BatchScheduler::AddEncoder(EncoderIndex encoder, EncoderSpec spec) {
  auto change = std::make_shared<Change>();
  change->encoder = encoder;
  change->spec = std::move(spec);
  return Await(change);
}

bool BatchScheduler::RemoveEncoder(EncoderIndex encoder) {
  auto change = std::make_shared<Change>();
  change->encoder = encoder;
  return Await(change);
}

bool BatchScheduler::Await(const std::shared_ptr<Change>& change) {
  {
    MutexLock lock(inbox_mutex_);
    changes_.push_back(change);
  }
  parker_.Notify();
  MutexLock lock(inbox_mutex_);
  while (!change->done && !stopping_.load(std::memory_order_relaxed)) change_done_.Wait(inbox_mutex_);
  return change->done;
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
    MutexLock lock(inbox_mutex_);
    outcomes_.push_back(outcome);
  }
  parker_.Notify();
}

}  // namespace tributary
