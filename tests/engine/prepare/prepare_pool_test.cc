// The preparation pool on its own: what goes on, what is refused, what is dropped.
#include "engine/prepare/prepare_pool.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

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

// One pixel, black.
class OnePixelPreparer final : public ImagePreparer {
 public:
  absl::StatusOr<PixelBlock> Prepare(const ImageInput&) const override { return PixelBlock{{0, 0, 0}, 1, 1}; }
};

// Waits at another one's gate.
class GatedImagePreparer final : public ImagePreparer {
 public:
  explicit GatedImagePreparer(const GatedPreparer& gate) : gate_(gate) {}
  absl::StatusOr<PixelBlock> Prepare(const ImageInput& input) const override {
    if (auto passed = gate_.Prepare({input.encoded, std::nullopt}, Truncation::kEnd); !passed.ok()) {
      return passed.status();
    }
    return PixelBlock{{0, 0, 0}, 1, 1};
  }

 private:
  const GatedPreparer& gate_;
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
  explicit Fixture(size_t capacity = 4) : pool(capacity, limits, &clock, &observer, Next()) { pool.Start(1); }
  PreparePool::Next Next() {
    return [this](WorkItemPtr item) {
      units = item->units;
      item->Complete({});
    };
  }
  WorkItemPtr Item(uint32_t index) {
    auto item = std::make_unique<WorkItem>(sink);
    item->input_index = index;
    return item;
  }
  void Submit(WorkItemPtr item, std::string_view text) {
    pool.Submit({std::move(item), TextInput{text, std::nullopt}, Truncation::kEnd, &preparers});
  }

  void SubmitImage(WorkItemPtr item, std::string_view encoded) {
    pool.Submit({std::move(item), ImageInput{encoded, std::nullopt}, Truncation::kEnd, &preparers});
  }

  SteadyClock clock;
  Observer observer;
  InputLimits limits{.max_text_bytes = 100, .max_text_tokens = 3, .max_image_bytes = 10};
  GatedPreparer preparer;
  OnePixelPreparer image_preparer;
  ModelPreparers preparers{&preparer, &image_preparer};
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  uint64_t units = 0;
  PreparePool pool;
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

TEST_CASE("Interactive work does not wait behind bulk, and both get their turn") {
  Fixture f(100);
  f.preparer.SetOpen(false);
  f.Submit(f.Item(0), "running");
  f.preparer.WaitUntilBegun(1);
  for (uint32_t i = 5; i <= 6; ++i) {
    WorkItemPtr bulk = f.Item(i);
    bulk->priority = Priority::kBulk;
    f.Submit(std::move(bulk), "text");
  }
  for (uint32_t i = 11; i <= 20; ++i) f.Submit(f.Item(i), "text");
  f.preparer.SetOpen(true);
  for (const uint32_t i : {0u, 5u, 6u}) CHECK(f.sink->WaitFor(i).ok());
  for (uint32_t i = 11; i <= 20; ++i) CHECK(f.sink->WaitFor(i).ok());

  std::vector<uint32_t> order;
  for (const auto& [index, status] : f.sink->statuses) order.push_back(index);
  // Seven texts; then what was passed over seven times.
  CHECK(order == std::vector<uint32_t>{0, 11, 12, 13, 14, 15, 16, 17, 5, 18, 19, 20, 6});
}

TEST_CASE("Neither kind waits for the other's threads") {
  Fixture f(100);
  const bool images_stuck = GENERATE(false, true);
  CAPTURE(images_stuck);
  GatedPreparer stuck;
  stuck.SetOpen(false);
  const GatedImagePreparer stuck_images(stuck);
  const ModelPreparers held{&stuck, &stuck_images};
  if (images_stuck) {
    f.pool.Submit({f.Item(0), ImageInput{"image", std::nullopt}, Truncation::kEnd, &held});
  } else {
    f.pool.Submit({f.Item(0), TextInput{"text", std::nullopt}, Truncation::kEnd, &held});
  }
  stuck.WaitUntilBegun(1);
  if (images_stuck) {
    f.Submit(f.Item(1), "text");
  } else {
    f.SubmitImage(f.Item(1), "image");
  }
  CHECK(f.sink->WaitFor(1).ok());
  stuck.SetOpen(true);
  CHECK(f.sink->WaitFor(0).ok());
  f.pool.Stop();
}

TEST_CASE("Inputs larger than the configured limits are refused with the value and the limit, unprepared") {
  Fixture f;
  const std::vector<int32_t> ids = {1, 2, 3, 4};
  const std::string text(101, 'x');
  f.Submit(f.Item(0), text);
  CHECK(f.sink->WaitFor(0) == absl::InvalidArgumentError("the text has 101 bytes; the limit is 100"));
  f.pool.Submit({f.Item(1), TextInput{"", ids}, Truncation::kEnd, &f.preparers});
  CHECK(f.sink->WaitFor(1) == absl::InvalidArgumentError("token_ids has 4 ids; the limit is 3"));
  f.SubmitImage(f.Item(2), "12345678901");
  CHECK(f.sink->WaitFor(2) == absl::InvalidArgumentError("the image has 11 bytes; the limit is 10"));
  const std::string_view rows = "raw rows, more than ten bytes";
  f.pool.Submit({f.Item(3), ImageInput{"", ImageInput::RawRgb{rows, 1, 1}}, Truncation::kEnd, &f.preparers});
  CHECK(f.sink->WaitFor(3) == absl::InvalidArgumentError("the image has 29 bytes; the limit is 10"));
}

TEST_CASE("The pool is busy while an item is being prepared, also when none waits, and not afterwards") {
  Fixture f;
  CHECK_FALSE(f.pool.Busy());
  f.preparer.SetOpen(false);
  f.Submit(f.Item(0), "running");
  f.preparer.WaitUntilBegun(1);
  CHECK(f.pool.DepthItems() == 0);
  CHECK(f.pool.Busy());
  f.preparer.SetOpen(true);
  CHECK(f.sink->WaitFor(0).ok());
  while (f.pool.Busy()) std::this_thread::yield();  // its thread lets go of it
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
