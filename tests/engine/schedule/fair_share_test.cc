#include "engine/schedule/fair_share.h"

#include <chrono>

#include "tests/support/catch.h"

namespace tributary {
namespace {

using std::chrono::milliseconds;

size_t Next(const FairShare& share) { return share.VirtualTime(0) <= share.VirtualTime(1) ? 0 : 1; }

TEST_CASE("saturated flows get device time by weight, whatever one batch costs") {
  FairShare share({2.0, 1.0});
  const Duration cost[] = {milliseconds(1), milliseconds(10)};
  Duration used[] = {Duration::zero(), Duration::zero()};
  for (int i = 0; i < 2000; ++i) {
    const size_t flow = Next(share);
    share.Charge(flow, cost[flow]);
    used[flow] += cost[flow];
  }
  CHECK(ToSeconds(used[0]) / ToSeconds(used[1]) == Approx(2.0).epsilon(0.02));
}

TEST_CASE("wrong predictions are made good by what was measured") {
  FairShare share({1.0, 1.0});
  Duration used[] = {Duration::zero(), Duration::zero()};
  const Duration measured[] = {milliseconds(1), milliseconds(10)};
  for (int i = 0; i < 2000; ++i) {
    const size_t flow = Next(share);
    share.Charge(flow, milliseconds(3));  // believed equal
    share.Correct(flow, milliseconds(3), measured[flow]);
    used[flow] += measured[flow];
  }
  CHECK(ToSeconds(used[0]) / ToSeconds(used[1]) == Approx(1.0).epsilon(0.02));
}

TEST_CASE("a flow that was idle starts at the present minimum: it is next, and cannot claim the past") {
  FairShare share({1.0, 1.0});
  for (int i = 0; i < 1000; ++i) share.Charge(0, milliseconds(10));
  share.Activate(1);
  int in_a_row = 0;
  while (Next(share) == 1 && in_a_row < 100) {
    share.Charge(1, milliseconds(10));
    ++in_a_row;
  }
  CHECK(in_a_row >= 1);
  CHECK(in_a_row <= 2);
}

TEST_CASE("a flow that comes back after a short pause keeps what it owes") {
  FairShare share({1.0, 1.0});
  share.Charge(1, milliseconds(100));
  share.Charge(0, milliseconds(10));
  share.Activate(1);
  CHECK(share.VirtualTime(1) == Approx(0.1));
}

}  // namespace
}  // namespace tributary
