// Makes the load: sends calls at their intended times (open loop) or as answers come (closed loop), and counts.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "benchmarks/client/load_spec.h"
#include "benchmarks/client/run_summary.h"
#include "benchmarks/client/timeline.h"
#include "benchmarks/client/transport.h"

namespace tributary::bench {

struct RunOptions {
  Mix mix;
  double rate = 0;  // open loop, calls per second; 0: closed loop
  Arrivals::Pattern pattern = Arrivals::Pattern::kPoisson;
  size_t concurrency = 1;       // closed loop: calls always open
  size_t max_in_flight = 4096;  // open loop: a call that would be one more is not sent, but counted
  Nanos warmup{0};              // same load, not measured
  Nanos duration{0};
  Nanos slo{0};
  Nanos drain{0};  // how long to wait for open calls at the end
  uint64_t seed = 1;
};

// Live figures, about once a second.
struct Progress {
  double seconds = 0;
  bool warming_up = false;
  uint64_t answered = 0;
  uint64_t error_inputs = 0;
  uint64_t missed = 0;
  size_t in_flight = 0;
  double p50_ms = 0;
  double p99_ms = 0;
};

// Latency counts from the intended send time: a slow server, a full client or a late thread cannot hide its queue
// (no coordinated omission). The run ends early, and says so, when calls are sent over 2 s late or 1,000 calls in a row
// failed.
// Thread-safety: Run once, from one thread.
class LoadRunner {
 public:
  LoadRunner(Transport* transport, const RunOptions& options) : transport_(*transport), options_(options) {}

  // Blocks until every call was answered or given up; closes the transport.
  RunSummary Run(const std::function<void(const Progress&)>& progress);

 private:
  using Clock = std::chrono::steady_clock;

  void SendOpenLoop();
  void SendClosedLoop();
  void SendOne(Random& random, Clock::time_point intended);
  void OnAnswer(Kind kind, Clock::time_point intended, const Outcome& outcome);
  bool Measured(Clock::time_point intended) const { return intended >= window_start_; }
  void Schedule(Clock::time_point intended, Nanos lag, bool room);  // under mutex_
  double InWindow(Clock::time_point time) const { return std::chrono::duration<double>(time - window_start_).count(); }
  Progress Current() const;                // under mutex_
  void StopSending(std::string not_held);  // under mutex_

  Transport& transport_;
  const RunOptions options_;
  Clock::time_point start_;
  Clock::time_point window_start_;
  Clock::time_point end_;

  std::mutex mutex_;
  std::condition_variable over_;       // nothing is sent any more, or nothing is open any more
  std::condition_variable slot_free_;  // closed loop: a call may be sent, or none any more
  RunSummary summary_;
  BoundedSeries<LoadBin> timeline_;
  size_t in_flight_ = 0;
  size_t free_slots_ = 0;  // closed loop: calls that may be sent now
  uint64_t failed_in_a_row_ = 0;
  bool sending_ = true;
  Clock::time_point last_answer_;
};

}  // namespace tributary::bench
