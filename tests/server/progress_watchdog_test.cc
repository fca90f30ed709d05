#include "server/progress_watchdog.h"

#include <condition_variable>
#include <mutex>

#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"

namespace tributary {
namespace {

using std::chrono::seconds;

EngineSnapshot Healthy() {
  EngineSnapshot snapshot;
  snapshot.lanes = {{.device = "cpu"}, {.device = "cpu"}};
  return snapshot;
}

TEST_CASE("an engine is stuck when a batch runs beyond its limit, or an item waits beyond it and no batch is done") {
  const HealthOptions options{.max_batch_time = seconds(30), .max_queue_age = seconds(120)};
  EngineSnapshot snapshot = Healthy();
  CHECK(StuckReason(snapshot, options).empty());
  snapshot.lanes[1].running_for = seconds(30);
  snapshot.queues[1].oldest_age = seconds(120);
  CHECK(StuckReason(snapshot, options).empty());
  snapshot.queues[1].oldest_age = seconds(121);
  // Overload: items are old, and batch after batch is done.
  snapshot.lanes[0].since_batch = seconds(500);
  snapshot.lanes[1].since_batch = seconds(1);
  CHECK(StuckReason(snapshot, options).empty());
  snapshot.lanes[1].since_batch = seconds(122);
  CHECK(StuckReason(snapshot, options) ==
        "the oldest waiting image item is 121 s old and no batch was done for 122 s, the limit is 120 s");
  snapshot.lanes[1].running_for = seconds(31);
  CHECK(StuckReason(snapshot, options) == "lane 1 (cpu) has been executing one batch for 31 s, the limit is 30 s");
}

TEST_CASE("a lane whose batches all fail is stuck, one that fails now and then is not") {
  EngineSnapshot snapshot = Healthy();
  snapshot.lanes[1].consecutive_failed_batches = 15;
  CHECK(StuckReason(snapshot, {}).empty());
  snapshot.lanes[1].consecutive_failed_batches = 16;
  CHECK(StuckReason(snapshot, {}) == "the last 16 batches of lane 1 (cpu) have all failed");
}

TEST_CASE("the watchdog reports each change once, and the way back") {
  FakeEngine engine;
  engine.SetSnapshot(Healthy());
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> reports;
  auto wait_for = [&](size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reports.size() >= count; });
  };
  {
    const ProgressWatchdog watchdog(&engine, {.check_interval = std::chrono::milliseconds(1)},
                                    [&](bool serving, const std::string& /*reason*/) {
                                      std::lock_guard lock(mutex);
                                      reports.push_back(serving);
                                      changed.notify_all();
                                    });
    EngineSnapshot stuck = Healthy();
    stuck.lanes[0].running_for = seconds(1000);
    engine.SetSnapshot(stuck);
    wait_for(1);
    engine.SetSnapshot(Healthy());
    wait_for(2);
    engine.SetSnapshot(stuck);
    wait_for(3);
  }
  CHECK(reports == std::vector<bool>{false, true, false});
}

}  // namespace
}  // namespace tributary
