#include "server/admin_worker.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/thread_name.h"

namespace tributary {
namespace {

// Operations that wait until let go, and what they were told. Thread-safety: all methods from any thread.
class Gate {
 public:
  AdminWorker::Operation Operation(const std::string& name, bool waits) {
    return [this, name, waits](const absl::Status& refusal) {
      std::unique_lock lock(mutex_);
      calls_.push_back(name + (refusal.ok() ? " ran on " + CurrentThreadName() : " refused"));
      changed_.notify_all();
      if (waits && refusal.ok()) changed_.wait(lock, [this] { return open_; });
    };
  }
  void WaitForCalls(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_.size() >= count; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::vector<std::string> calls() {
    std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> calls_;
  bool open_ = false;
};

using Calls = std::vector<std::string>;

TEST_CASE("operations run one after the other on the worker's own thread, in their order") {
  Gate gate;
  AdminWorker worker;
  REQUIRE(worker.Submit(gate.Operation("a", true)).ok());
  REQUIRE(worker.Submit(gate.Operation("b", false)).ok());
  gate.WaitForCalls(1);
  CHECK(gate.calls() == Calls{"a ran on trib-admin"});
  gate.Open();
  gate.WaitForCalls(2);
  CHECK(gate.calls() == Calls{"a ran on trib-admin", "b ran on trib-admin"});
}

TEST_CASE("more than 8 waiting operations are refused, and never called") {
  Gate gate;
  AdminWorker worker;
  REQUIRE(worker.Submit(gate.Operation("first", true)).ok());
  gate.WaitForCalls(1);
  for (size_t i = 0; i < AdminWorker::kMaxWaiting; ++i) {
    REQUIRE(worker.Submit(gate.Operation("next", false)).ok());
  }
  const absl::Status status = worker.Submit(gate.Operation("one too many", false));
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(status.message()).find("8 loads and unloads wait") == 0);
  gate.Open();
  gate.WaitForCalls(9);
  for (const std::string& call : gate.calls()) CHECK(call.find("one too many") == std::string::npos);
}

TEST_CASE("closing refuses what waits and what comes, at once; what runs is waited for") {
  Gate gate;
  AdminWorker worker;
  REQUIRE(worker.Submit(gate.Operation("running", true)).ok());
  gate.WaitForCalls(1);
  REQUIRE(worker.Submit(gate.Operation("waiting", false)).ok());
  worker.Close();
  CHECK(gate.calls() == Calls{"running ran on trib-admin", "waiting refused"});
  CHECK(worker.Submit(gate.Operation("late", false)).code() == absl::StatusCode::kUnavailable);
  CHECK_FALSE(worker.WaitUntilIdle(SteadyClock().Now()));
  gate.Open();
  CHECK(worker.WaitUntilIdle(kNoDeadline));
  CHECK(gate.calls().size() == 2);
}

}  // namespace
}  // namespace tributary
