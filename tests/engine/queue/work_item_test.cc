#include "engine/queue/work_item.h"

#include "tests/support/catch.h"

namespace tributary {
namespace {

struct RecordingSink : ItemSink {
  void OnItemDone(const WorkItem& item, absl::Status status, std::vector<float> embedding) override {
    ++calls;
    input_index = item.input_index;
    last_status = std::move(status);
    last_embedding = std::move(embedding);
  }
  int calls = 0;
  uint32_t input_index = 0;
  absl::Status last_status;
  std::vector<float> last_embedding;
};

TEST_CASE("an item is completed once, whatever comes after") {
  auto sink = std::make_shared<RecordingSink>();
  {
    WorkItem item(sink);
    item.input_index = 7;
    item.Complete({1.0f, 2.0f});
    item.Fail(absl::CancelledError("too late"));
  }
  REQUIRE(sink->calls == 1);
  REQUIRE(sink->input_index == 7);
  REQUIRE(sink->last_status.ok());
  REQUIRE(sink->last_embedding == std::vector<float>{1.0f, 2.0f});
}

TEST_CASE("a failed item carries its status and no vector") {
  auto sink = std::make_shared<RecordingSink>();
  WorkItem(sink).Fail(absl::DeadlineExceededError("expired"));
  REQUIRE(sink->calls == 1);
  REQUIRE(sink->last_status.code() == absl::StatusCode::kDeadlineExceeded);
  REQUIRE(sink->last_embedding.empty());
}

TEST_CASE("an item that is given up without an answer fails as internal, so that no request is lost") {
  auto sink = std::make_shared<RecordingSink>();
  {
    WorkItem item(sink);
  }
  REQUIRE(sink->calls == 1);
  REQUIRE(sink->last_status.code() == absl::StatusCode::kInternal);
}

TEST_CASE("an item knows whether its deadline has passed and whether its client has gone") {
  WorkItem item(std::make_shared<RecordingSink>());
  const TimePoint now(std::chrono::seconds(5));
  REQUIRE_FALSE(item.expired(now));
  REQUIRE_FALSE(item.cancelled());
  item.deadline = now;
  item.cancel = std::make_shared<CancelToken>();
  REQUIRE(item.expired(now));
  REQUIRE_FALSE(item.expired(now - Duration(1)));
  REQUIRE_FALSE(item.cancelled());
  item.cancel->Cancel();
  REQUIRE(item.cancelled());
}

}  // namespace
}  // namespace tributary
