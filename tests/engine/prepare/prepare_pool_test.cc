// The preparation pool on its own: what goes on, what is refused, what is dropped.
#include "engine/prepare/prepare_pool.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "engine/api/cancel_token.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

// Tokens: one per byte. Waits at the gate when it is closed; throws for "throw".
class GatedPreparer final : public TextPreparer {
 public:
  absl::StatusOr<TokenSequence> Prepare(const TextInput& input, Truncation) const override {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    if (input.text == "throw") throw std::runtime_error("broken tokeniser");
    return TokenSequence{std::vector<int32_t>(input.text.size(), 1), false};
  }
  void SetOpen(bool open) {
    std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  void WaitUntilBegun(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int begun_ = 0;
  bool open_ = true;
};

// Remembers every item's status by input index. What `next` got counts as OK.
class Sink final : public ItemSink {
 public:
  void OnItemDone(const WorkItem& item, absl::Status status, std::vector<float>) override {
    std::lock_guard lock(mutex);
    statuses.emplace_back(item.input_index, std::move(status));
    changed.notify_all();
  }
  absl::Status WaitFor(uint32_t input) {
    std::unique_lock lock(mutex);
    for (;;) {
      for (const auto& [index, status] : statuses) {
        if (index == input) return status;
      }
      changed.wait(lock);
    }
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<uint32_t, absl::Status>> statuses;
};

struct Fixture {
  WorkItemPtr Item(uint32_t index) {
    auto item = std::make_unique<WorkItem>(sink);
    item->input_index = index;
    return item;
  }
  void Submit(WorkItemPtr item, std::string_view text) {
    pool.Submit({std::move(item), TextInput{text, std::nullopt}, Truncation::kEnd, &preparers});
  }

  SteadyClock clock;
  Observer observer;
  GatedPreparer preparer;
  ModelPreparers preparers{&preparer, nullptr, 10};
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  uint64_t units = 0;
  PreparePool pool{1, 4, InputLimits{}, &clock, &observer, [this](WorkItemPtr item) {
                     units = item->units;
                     item->Complete({});
                   }};
};

TEST_CASE("A prepared item goes on with its units; a preparer that throws fails its item only") {
  Fixture f;
  f.Submit(f.Item(0), "throw");
  f.Submit(f.Item(1), "seven b");
  CHECK(f.sink->WaitFor(0).code() == absl::StatusCode::kInternal);
  CHECK(f.sink->WaitFor(1).ok());
  CHECK(f.units == 7);
}

TEST_CASE("Cancelled and expired items are dropped before they are prepared") {
  Fixture f;
  WorkItemPtr cancelled = f.Item(0);
  cancelled->cancel = std::make_shared<CancelToken>();
  cancelled->cancel->Cancel();
  WorkItemPtr expired = f.Item(1);
  expired->deadline = f.clock.Now();
  f.Submit(std::move(cancelled), "throw");
  f.Submit(std::move(expired), "throw");
  CHECK(f.sink->WaitFor(0).code() == absl::StatusCode::kCancelled);
  CHECK(f.sink->WaitFor(1).code() == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("Beyond the capacity and after Stop an item is answered UNAVAILABLE, never lost") {
  Fixture f;
  f.preparer.SetOpen(false);
  f.Submit(f.Item(0), "running");
  f.preparer.WaitUntilBegun(1);
  for (uint32_t i = 1; i <= 4; ++i) f.Submit(f.Item(i), "waiting");
  CHECK(f.pool.DepthItems() == 4);
  f.Submit(f.Item(5), "one too many");
  CHECK(f.sink->WaitFor(5).code() == absl::StatusCode::kUnavailable);
  f.preparer.SetOpen(true);
  f.pool.Stop();
  f.Submit(f.Item(6), "late");

  CHECK(f.sink->WaitFor(0).ok());
  CHECK(f.sink->WaitFor(6).code() == absl::StatusCode::kUnavailable);
  CHECK(f.sink->statuses.size() == 7);
}

}  // namespace
}  // namespace tributary
