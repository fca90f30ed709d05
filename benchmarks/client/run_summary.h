// What a run measured, and its numbers by name: what the table, the JSON and --fail-if show.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/client/latency_histogram.h"
#include "benchmarks/client/load_spec.h"
#include "benchmarks/client/transport.h"

namespace tributary::bench {

// Calls of one kind whose intended send time lies in the measured window (after warm-up).
struct KindCounts {
  // Intended send time -> answer, of calls without any error and of those that ran out of time: what a call waited
  // until its deadline is the least it would have taken. Other errors come fast and say nothing of latency.
  LatencyHistogram latency;
  uint64_t calls = 0;       // answered, errors included
  uint64_t good_calls = 0;  // without error and within the SLO
  uint64_t ok_inputs = 0;
  uint64_t good_inputs = 0;  // of good calls
  uint64_t tokens = 0;
  std::map<std::string, uint64_t> errors;  // inputs by code

  void Add(const Outcome& outcome, Nanos latency_of_call, Nanos slo);
  void Merge(const KindCounts& other);
  uint64_t error_inputs() const;
};

// Figures over time: each column has a value for each bin; NaN: nothing to measure it by (timeline.h).
struct Timeline {
  double width_seconds = 0;           // of a bin
  std::vector<double> start_seconds;  // of the bins, from the start of the measured window
  std::map<std::string, std::vector<double>> columns;
  uint64_t samples = 0;         // of the server's metrics
  uint64_t failed_samples = 0;  // that could not be read
};

struct RunSummary {
  std::array<KindCounts, kKindCount> kinds;
  LatencyHistogram send_lag;     // how late calls were sent after their intended time (in latency, too)
  double offered_rate = 0;       // calls per second asked for; 0: closed loop
  double window_seconds = 0;     // length of the measured window
  double elapsed_seconds = 0;    // start of the window -> last answer
  uint64_t scheduled_calls = 0;  // intended send time in the window
  uint64_t missed_calls = 0;     // of those, not sent: max_in_flight calls were open
  uint64_t given_up_calls = 0;   // still open when the run was over, cancelled
  uint64_t max_in_flight = 0;    // most calls open at once
  std::string not_held;          // why the run ended before its time, or what WhyNotHeld() said at its end
  Timeline load;                 // of the calls
  Timeline server;               // of the server's metrics; empty without them

  KindCounts Total() const;
  // p50_ms p90_ms p95_ms p99_ms p999_ms max_ms mean_ms: latency (KindCounts). calls_per_second,
  // inputs_per_second, tokens_per_second: answered. goodput: inputs per second within the SLO. goodput_ratio: calls
  // within the SLO of those scheduled. error_ratio: inputs. missed_ratio, send_lag_p99_ms. Where nothing was measured:
  // NaN.
  std::map<std::string, double> Values() const;
  // `not_held`, or else what the figures of an open loop say against it. Empty: the load was held.
  std::string WhyNotHeld() const;
};

}  // namespace tributary::bench
