// Reads the server's metrics once a second while a run goes on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "benchmarks/client/timeline.h"

namespace tributary::bench {

// Owns one thread, from its making to Stop. A page that cannot be read is counted and leaves a gap.
// Thread-safety: none.
class ServerSampler {
 public:
  using Clock = std::chrono::steady_clock;

  // `target` as of ReadServerMetrics; `origin`: second 0 of the timeline, the start of the measured window.
  ServerSampler(std::string target, Clock::time_point origin);

  // Ends the thread: takes as long as reading a page, at most seconds. Once.
  Timeline Stop();

 private:
  void Sample();

  const std::string target_;
  const Clock::time_point origin_;
  ServerSeries series_;  // of the thread, until it has ended
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace tributary::bench
