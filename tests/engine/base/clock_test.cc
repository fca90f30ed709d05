#include "engine/base/clock.h"

#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"

namespace tributary {
namespace {

TEST_CASE("the steady clock never goes back, and no moment is later than no deadline") {
  SteadyClock clock;
  const TimePoint first = clock.Now();
  const TimePoint second = clock.Now();
  REQUIRE(second >= first);
  REQUIRE(second < kNoDeadline);
}

TEST_CASE("the fake clock stands still until it is stepped") {
  FakeClock clock;
  const TimePoint start = clock.Now();
  REQUIRE(start > TimePoint{});
  REQUIRE(clock.Now() == start);
  clock.Advance(std::chrono::milliseconds(3));
  REQUIRE(clock.Now() - start == std::chrono::milliseconds(3));
}

TEST_CASE("durations turn into seconds and back") {
  REQUIRE(ToSeconds(std::chrono::milliseconds(1500)) == 1.5);
  REQUIRE(FromSeconds(0.25) == std::chrono::milliseconds(250));
}

}  // namespace
}  // namespace tributary
