// Time as the engine sees it: one injectable monotonic clock. Below everything else in the flow.
#pragma once

#include <chrono>

namespace tributary {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// "No deadline": later than every other time point. Never add to it.
inline constexpr TimePoint kNoDeadline = TimePoint::max();

// A monotonic clock. Production uses SteadyClock; tests step a fake one by hand (tests/support/fake_clock.h).
// Thread-safety: Now() may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }
};

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace tributary
