// Nothing is lost and nothing is answered twice: random load, cancels, deadlines and failures, by hand and with
// threads.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "tests/engine/schedule/scheduler_house.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

struct Submitted {
  std::shared_ptr<Answer> answer;
  std::shared_ptr<CancelToken> cancel;
};

ItemSpec RandomItem(std::mt19937_64& random, std::shared_ptr<CancelToken> cancel) {
  ItemSpec spec;
  spec.cancel = std::move(cancel);
  spec.encoder = static_cast<EncoderIndex>(random() % 3);
  spec.modality = spec.encoder == 2 ? Modality::kImage : Modality::kText;
  spec.units = spec.encoder == 2 ? 1 : 1 + random() % (random() % 8 == 0 ? 600 : 60);
  spec.priority = random() % 3 == 0 ? Priority::kBulk : Priority::kInteractive;
  if (random() % 2 == 0) spec.deadline_after = microseconds(100 + random() % 40000);
  return spec;
}

const std::vector<HouseEncoder> kEncoders = {
    {Modality::kText, 512, 16, {0, 1}}, {Modality::kText, 256, 8, {0, 1}}, {Modality::kImage, 4, 4, {0}}};

TEST_CASE("each item is answered exactly once under random cancels, deadlines, cost changes and failures") {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    ScheduleOptions options;
    options.drop_late = seed % 2 == 0;
    options.bulk_every = 3 + random() % 8;
    if (seed == 3) options.modalities[0].max_wait = milliseconds(3);
    // The image encoder is on one device only.
    SchedulerHouse house(options, {0, 1, 0}, kEncoders);
    std::vector<Submitted> submitted;
    uint64_t last_sequence = 0;
    const auto finish = [&](size_t lane) {
      const double factor = static_cast<double>(1 + random() % 10);
      const bool fails = random() % 10 == 0;
      const Batch& running = house.puppet.held(lane).front();
      REQUIRE(!running.items.empty());
      uint64_t units = 0;
      for (const WorkItemPtr& item : running.items) {
        REQUIRE(item->encoder == running.encoder);
        REQUIRE((lane != 1 || item->encoder != 2));
        units += item->units;
      }
      REQUIRE(units == running.useful_units);
      const HouseEncoder& spec = kEncoders[running.encoder];
      REQUIRE(running.items.size() <= spec.max_items);
      if (running.items.size() > 1) REQUIRE(units <= spec.max_units);
      last_sequence = std::max(last_sequence, running.sequence);
      house.puppet.Finish(lane,
                          fails ? Duration::zero() : FromSeconds(factor * 1e-6 * static_cast<double>(100 + units)),
                          fails ? absl::InternalError("device fault") : absl::OkStatus());
    };
    for (int step = 0; step < 8000; ++step) {
      switch (random() % 5) {
        case 0:
        case 1:
          for (uint64_t i = random() % 6; i > 0; --i) {
            auto cancel = std::make_shared<CancelToken>();
            submitted.push_back({house.Push(RandomItem(random, cancel)), cancel});
          }
          break;
        case 2:
          if (!submitted.empty()) submitted[random() % submitted.size()].cancel->Cancel();
          break;
        case 3:
          house.clock.Advance(microseconds(random() % 2000));
          break;
        default: {
          const size_t lane = random() % 3;
          if (!house.puppet.held(lane).empty()) finish(lane);
        }
      }
      if (random() % 2 == 0) house.Turn();
    }
    for (bool busy = true; busy;) {
      house.clock.Advance(milliseconds(5));
      house.Turn();
      busy = house.scheduler.Waiting(Modality::kText).items + house.scheduler.Waiting(Modality::kImage).items > 0;
      for (size_t lane = 0; lane < 3; ++lane) {
        if (house.puppet.held(lane).empty()) continue;
        busy = true;
        finish(lane);
      }
    }
    REQUIRE(house.pushed == submitted.size());
    CHECK(last_sequence == house.puppet.executed());
    size_t dropped = 0;
    for (const Submitted& one : submitted) {
      REQUIRE(one.answer->times == 1);
      if (one.answer->dropped) ++dropped;
    }
    size_t reported = 0;
    for (const auto& drops : house.drops.drops) reported += drops;
    CHECK(dropped == reported);
    CHECK(dropped > 100);
    CHECK(dropped < submitted.size());
  }
}

// Two lanes, each with a thread and on a device of its own, that "run" batches in no time; some fail.
class ThreadedExecutor final : public BatchExecutor {
 public:
  ThreadedExecutor() {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) threads_.emplace_back([this, lane] { Run(lane); });
  }
  ~ThreadedExecutor() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void SetListener(BatchListener* listener) override { listener_ = listener; }
  size_t LaneCount() const override { return lanes_.size(); }
  size_t DeviceOf(size_t lane) const override { return lane; }
  size_t FreeSlots(size_t lane) const override { return 2 - InFlight(lane); }
  size_t InFlight(size_t lane) const override {
    std::lock_guard lock(mutex_);
    return lanes_[lane].in_flight;
  }
  void Execute(size_t lane, Batch batch) override {
    {
      std::lock_guard lock(mutex_);
      ++lanes_[lane].in_flight;
      lanes_[lane].batches.push_back(std::move(batch));
    }
    wake_.notify_all();
  }

 private:
  struct Lane {
    std::deque<Batch> batches;
    size_t in_flight = 0;
  };

  // Runs until stopped, and then what is left.
  void Run(size_t lane) {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !lanes_[lane].batches.empty(); });
      if (lanes_[lane].batches.empty()) return;
      Batch batch = std::move(lanes_[lane].batches.front());
      lanes_[lane].batches.pop_front();
      lock.unlock();
      const absl::Status status = batch.sequence % 7 == 0 ? absl::InternalError("device fault") : absl::OkStatus();
      for (const WorkItemPtr& item : batch.items) {
        if (status.ok()) {
          item->Complete({1.0f});
        } else {
          item->Fail(status);
        }
      }
      lock.lock();
      --lanes_[lane].in_flight;
      lock.unlock();
      BatchOutcome outcome = OutcomeOf(batch, lane);
      outcome.computed_units = batch.useful_units;
      outcome.device_time = microseconds(1 + batch.useful_units / 10);
      outcome.status = status;
      listener_->OnBatchDone(outcome);
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::array<Lane, 2> lanes_;  // guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  BatchListener* listener_ = nullptr;
  std::vector<std::thread> threads_;
};

TEST_CASE("with real threads each item is answered exactly once, also when the scheduler stops in the middle") {
  constexpr size_t kProducers = 3;
  constexpr size_t kItemsEach = 3000;
  SteadyClock clock;
  DropCounter drops;
  ModalityQueue<WorkItemPtr> text(kProducers * kItemsEach);
  ModalityQueue<WorkItemPtr> image(kProducers * kItemsEach);
  std::array<std::vector<Submitted>, kProducers> submitted;
  for (const bool stop_early : {false, true}) {
    for (auto& mine : submitted) mine.clear();
    // Destruction order: the executor first (it ends its threads after what they hold), then the scheduler.
    std::unique_ptr<BatchScheduler> scheduler;
    ThreadedExecutor executor;
    scheduler = std::make_unique<BatchScheduler>(
        ScheduleOptions{}, SpecsOf(kEncoders),
        std::array<ModalityQueue<WorkItemPtr>*, kModalityCount>{&text, &image, nullptr}, &executor, &clock, &drops);
    scheduler->Start();
    std::atomic<size_t> refused{0};
    std::vector<std::thread> producers;
    for (size_t p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        std::mt19937_64 random(100 + p);
        for (size_t i = 0; i < kItemsEach; ++i) {
          auto cancel = std::make_shared<CancelToken>();
          const ItemSpec spec = RandomItem(random, cancel);
          auto [item, answer] = MakeItem(spec, clock.Now());
          if (!(spec.modality == Modality::kText ? text : image).TryPush(std::move(item))) ++refused;
          scheduler->NotifyQueued();
          submitted[p].push_back({std::move(answer), std::move(cancel)});
          if (random() % 10 == 0) submitted[p][random() % submitted[p].size()].cancel->Cancel();
        }
      });
    }
    for (std::thread& producer : producers) producer.join();
    CHECK(refused == 0);
    const auto all_answered = [&] {
      return std::all_of(submitted.begin(), submitted.end(), [](const auto& mine) {
        return std::all_of(mine.begin(), mine.end(), [](const Submitted& one) { return one.answer->done(); });
      });
    };
    if (!stop_early) {
      while (!all_answered())
        std::this_thread::yield();  // ends by itself, or ctest's timeout says that an item was lost
      CHECK(drops.count(DropReason::kShutdown) == 0);
    }
    scheduler->Stop();
    // What was handed over before goes on; the lanes finish it.
    while (!all_answered()) std::this_thread::yield();
    for (const auto& mine : submitted) {
      for (const Submitted& one : mine) REQUIRE(one.answer->times == 1);
    }
    CHECK(scheduler->Waiting(Modality::kText).items == 0);
  }
}

}  // namespace
}  // namespace tributary
