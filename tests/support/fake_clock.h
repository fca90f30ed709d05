// A clock that tests step by hand.
#pragma once

#include <atomic>

#include "engine/base/clock.h"

namespace tributary {

// Starts at one second, so that the epoch value keeps its meaning "not reached". Thread-safety: all methods.
class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_nanos_.load(std::memory_order_acquire))); }
  void Advance(Duration step) { now_nanos_.fetch_add(step.count(), std::memory_order_acq_rel); }

 private:
  std::atomic<Duration::rep> now_nanos_{Duration(std::chrono::seconds(1)).count()};
};

}  // namespace tributary
