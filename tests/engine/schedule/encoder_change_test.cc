// Encoders that come and go while the scheduler runs.
#include <future>

#include "tests/engine/schedule/scheduler_house.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

EncoderSpec TextEncoder(uint64_t max_units, size_t max_items = 1) {
  return SpecsOf({{Modality::kText, max_units, max_items}})[0];
}

bool IsReady(std::future<bool>& done) { return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

// Turns until the change is made; on this thread, as tests drive the scheduler.
bool TurnUntil(SchedulerHouse& house, std::future<bool>& done) {
  while (!IsReady(done)) house.Turn();
  return done.get();
}

bool Add(SchedulerHouse& house, EncoderIndex encoder, const EncoderSpec& spec) {
  auto done = std::async(std::launch::async, [&] { return house.scheduler.AddEncoder(encoder, spec); });
  return TurnUntil(house, done);
}

TEST_CASE("an encoder that was added gets its work, within its limits") {
  SchedulerHouse house;
  REQUIRE(Add(house, 1, TextEncoder(30, 8)));
  for (int i = 0; i < 5; ++i) house.Push({.units = 10, .encoder = 1});
  house.Turn();
  REQUIRE(house.puppet.held().size() == 2);
  CHECK(house.puppet.held()[0].encoder == 1);
  CHECK(house.puppet.held()[0].items.size() == 3);
}

TEST_CASE("an encoder is let go when the last of its batches is done, and other work goes on meanwhile") {
  SchedulerHouse house({}, 2, {{Modality::kText, 512, 1}, {Modality::kText, 512, 1}});
  const auto last = house.Push({.encoder = 1});
  house.Turn();
  auto removed = std::async(std::launch::async, [&] { return house.scheduler.RemoveEncoder(1); });
  for (int i = 0; i < 100; ++i) {
    const auto other = house.Push({.encoder = 0});
    house.Turn();
    house.Finish(milliseconds(1), 1);
    REQUIRE(other->ok());
  }
  CHECK_FALSE(IsReady(removed));
  house.Finish(milliseconds(1), 0);
  CHECK(TurnUntil(house, removed));
  CHECK(last->ok());
}

TEST_CASE("an index that is used again knows nothing of the encoder that had it before") {
  SchedulerHouse house;
  house.Train(milliseconds(100), Duration::zero());
  const auto hopeless = house.Push({.deadline_after = milliseconds(10)});
  house.Turn();
  REQUIRE(hopeless->dropped == DropReason::kTooLate);

  auto removed = std::async(std::launch::async, [&] { return house.scheduler.RemoveEncoder(0); });
  REQUIRE(TurnUntil(house, removed));
  REQUIRE(Add(house, 0, TextEncoder(512)));
  const auto hopeful = house.Push({.deadline_after = milliseconds(10)});
  house.Turn();
  REQUIRE(house.puppet.held().size() == 1);
  CHECK(house.puppet.held()[0].predicted_time == Duration::zero());
  house.Finish(milliseconds(1));
  CHECK(hopeful->ok());
}

TEST_CASE("an encoder that comes late starts with an even share, and does not claim the past") {
  SchedulerHouse house({}, 1, {{Modality::kText, 512, 1}});
  house.Train(milliseconds(10), Duration::zero());  // 0.4 s of device time
  REQUIRE(Add(house, 1, TextEncoder(512)));
  for (int i = 0; i < 100; ++i) {
    house.Push({.encoder = 0});
    house.Push({.encoder = 1});
  }
  house.Turn();
  std::array<int, 2> run{};
  for (int i = 0; i < 100; ++i) ++run[house.Finish(milliseconds(10)).encoder];
  CHECK(run[0] > 40);
  CHECK(run[1] > 40);
}

TEST_CASE("whoever waits for a change is let go when the scheduler stops") {
  SchedulerHouse house;
  house.Push({});
  house.Turn();
  auto removed = std::async(std::launch::async, [&] { return house.scheduler.RemoveEncoder(0); });
  house.scheduler.Stop();
  CHECK_FALSE(removed.get());
  CHECK_FALSE(house.scheduler.AddEncoder(1, TextEncoder(512)));
  house.puppet.Finish(0, milliseconds(1));
}

}  // namespace
}  // namespace tributary
