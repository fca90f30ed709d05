#include "engine/base/parker.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("a notification between taking the ticket and parking is not lost") {
  Parker parker;
  const uint64_t ticket = parker.Ticket();
  parker.Notify();
  parker.Park(ticket);  // would hang
  REQUIRE(parker.Ticket() != ticket);
}

TEST_CASE("parking ends at the wake-up time when nobody notifies") {
  Parker parker;
  const TimePoint wake_at = SteadyClock().Now() + std::chrono::milliseconds(2);
  parker.Park(parker.Ticket(), wake_at);
  REQUIRE(SteadyClock().Now() >= wake_at);
}

TEST_CASE("the sleeper sees everything that was done before each of many notifications") {
  constexpr size_t kNotifiers = 4;
  constexpr size_t kEach = 5000;
  Parker parker;
  std::atomic<size_t> done{0};
  std::vector<size_t> written(kNotifiers, 0);  // plain memory: TSan checks the visibility that Notify promises
  std::vector<std::jthread> notifiers;
  for (size_t n = 0; n < kNotifiers; ++n) {
    notifiers.emplace_back([&, n] {
      for (size_t i = 1; i <= kEach; ++i) {
        if (i == kEach) written[n] = i;
        done.fetch_add(1, std::memory_order_relaxed);
        parker.Notify();
      }
    });
  }
  for (;;) {
    const uint64_t ticket = parker.Ticket();
    if (done.load(std::memory_order_relaxed) == kNotifiers * kEach && ticket == kNotifiers * kEach) break;
    parker.Park(ticket);
  }
  REQUIRE(written == std::vector<size_t>(kNotifiers, kEach));
}

}  // namespace
}  // namespace tributary
