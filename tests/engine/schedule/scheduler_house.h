// A scheduler with its queues, a fake clock and puppet lanes, for tests that drive it turn by turn.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/queue/drop_item.h"
#include "engine/schedule/batch_scheduler.h"
#include "tests/support/fake_clock.h"
#include "tests/support/puppet_executor.h"

namespace tributary {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What became of one item. Thread-safety: read it when the item is done and no thread holds it any more.
struct Answer final : ItemSink {
  void OnItemDone(const WorkItem& /*item*/, absl::Status status, std::vector<float> /*embedding*/) override {
    for (size_t reason = 0; reason < kDropReasonCount; ++reason) {
      if (status == DropStatus(static_cast<DropReason>(reason))) dropped = static_cast<DropReason>(reason);
    }
    code = status.code();
    if (clock != nullptr) done_at = clock->Now();
    times.fetch_add(1);
  }
  bool done() const { return times.load() > 0; }
  bool ok() const { return done() && code == absl::StatusCode::kOk; }

  const Clock* clock = nullptr;
  std::atomic<int> times{0};
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::optional<DropReason> dropped;
  TimePoint done_at{};
};

struct DropCounter final : Observer {
  void OnDropped(Modality /*modality*/, DropReason reason) override { ++drops[static_cast<size_t>(reason)]; }
  size_t count(DropReason reason) const { return drops[static_cast<size_t>(reason)]; }
  std::array<std::atomic<size_t>, kDropReasonCount> drops{};
};

struct ItemSpec {
  uint64_t units = 10;
  Duration deadline_after{0};  // from now; 0: none
  Priority priority = Priority::kInteractive;
  Modality modality = Modality::kText;
  EncoderIndex encoder = 0;
  std::shared_ptr<CancelToken> cancel = nullptr;
};

inline std::pair<WorkItemPtr, std::shared_ptr<Answer>> MakeItem(const ItemSpec& spec, TimePoint now,
                                                                const Clock* clock = nullptr) {
  auto answer = std::make_shared<Answer>();
  answer->clock = clock;
  auto item = std::make_unique<WorkItem>(answer);
  item->modality = spec.modality;
  item->encoder = spec.encoder;
  item->priority = spec.priority;
  item->units = spec.units;
  item->cancel = spec.cancel;
  item->times.queued = now;
  if (spec.deadline_after > Duration::zero()) item->deadline = now + spec.deadline_after;
  return {std::move(item), std::move(answer)};
}

// An encoder with the same limits on all its devices.
struct HouseEncoder {
  Modality modality = Modality::kText;
  uint64_t max_units = 0;
  size_t max_items = 0;
  std::vector<size_t> devices = {0};
};

inline std::vector<EncoderSpec> SpecsOf(const std::vector<HouseEncoder>& encoders) {
  std::vector<EncoderSpec> specs;
  for (const HouseEncoder& encoder : encoders) {
    EncoderSpec& spec = specs.emplace_back(EncoderSpec{encoder.modality, {}});
    for (const size_t device : encoder.devices) {
      spec.replicas.push_back({device, nullptr, encoder.max_units, encoder.max_items});
    }
  }
  return specs;
}

class SchedulerHouse {
 public:
  explicit SchedulerHouse(ScheduleOptions options = {}, size_t lanes = 1,
                          const std::vector<HouseEncoder>& encoders = {{Modality::kText, 512, 64}})
      : SchedulerHouse(std::move(options), std::vector<size_t>(lanes, 0), encoders) {}
  SchedulerHouse(ScheduleOptions options, std::vector<size_t> device_of_lane, const std::vector<HouseEncoder>& encoders)
      : puppet(std::move(device_of_lane)),
        scheduler(options, SpecsOf(encoders), {&text, &image, nullptr}, &puppet, &clock, &drops) {}

  std::shared_ptr<Answer> Push(const ItemSpec& spec) {
    auto [item, answer] = MakeItem(spec, clock.Now(), &clock);
    auto& queue = spec.modality == Modality::kText ? text : image;
    pushed += queue.TryPush(std::move(item)) ? 1 : 0;
    return answer;
  }
  void Turn() {
    while (scheduler.RunOnce()) {
    }
  }
  // The running batch of the lane ends after `device_time`.
  Batch Finish(Duration device_time, size_t lane = 0, absl::Status status = absl::OkStatus()) {
    clock.Advance(device_time);
    Batch batch = puppet.Finish(lane, device_time, std::move(status));
    Turn();
    return batch;
  }
  // Teaches the cost model of an encoder fixed + per_unit * units, by batches of one item on an idle lane 0.
  void Train(Duration fixed, Duration per_unit, EncoderIndex encoder = 0, Modality modality = Modality::kText) {
    for (int i = 0; i < 40; ++i) {
      const uint64_t units = i % 2 == 0 ? 10 : 100;
      Push({.units = units, .modality = modality, .encoder = encoder});
      Turn();
      Finish(fixed + per_unit * static_cast<int64_t>(units));
    }
  }

  FakeClock clock;
  ModalityQueue<WorkItemPtr> text{8192};
  ModalityQueue<WorkItemPtr> image{8192};
  DropCounter drops;
  PuppetExecutor puppet;
  BatchScheduler scheduler;
  size_t pushed = 0;
};

// Runs the puppet's batches in simulated time, each for as long as `cost` says.
class LaneSimulator {
 public:
  LaneSimulator(SchedulerHouse* house, std::function<Duration(const Batch&)> cost)
      : house_(house), cost_(std::move(cost)), ends_(house->puppet.LaneCount()) {}

  // One small step: time, batches that end in it, a turn of the scheduler.
  void Step(Duration step) {
    const TimePoint before = house_->clock.Now();
    house_->clock.Advance(step);
    const TimePoint now = house_->clock.Now();
    for (size_t lane = 0; lane < ends_.size(); ++lane) {
      TimePoint free_since = before;
      while (!house_->puppet.held(lane).empty()) {
        if (!ends_[lane]) ends_[lane] = End{free_since, cost_(house_->puppet.held(lane).front())};
        const TimePoint end = ends_[lane]->start + ends_[lane]->time;
        if (end > now) break;
        const Duration time = ends_[lane]->time;
        ends_[lane].reset();
        free_since = end;
        const Batch batch = house_->puppet.Finish(lane, time);
        device_time[static_cast<size_t>(batch.modality)] += time;
        ++batches[static_cast<size_t>(batch.modality)];
      }
    }
    house_->Turn();
  }

  std::array<Duration, kModalityCount> device_time{};  // of finished batches; index: Modality
  std::array<size_t, kModalityCount> batches{};

 private:
  struct End {
    TimePoint start{};
    Duration time{0};
  };
  SchedulerHouse* const house_;
  const std::function<Duration(const Batch&)> cost_;
  std::vector<std::optional<End>> ends_;  // of the running batch; index: lane
};

}  // namespace tributary
