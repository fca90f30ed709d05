#include "benchmarks/client/run_summary.h"

#include <cstdio>

namespace tributary::bench {
namespace {

constexpr double kHeldMissedRatio = 0.01;  // more calls not sent: the rate was not held
constexpr double kHeldLagMillis = 100;     // p99 of the send lag beyond: the rate was not held

double Ratio(double part, double whole) { return whole > 0 ? part / whole : kNoValue; }

// CANCELLED: given up by the runner itself, which waits longer than the deadline.
bool OutOfTime(const Outcome& outcome) {
  return outcome.errors.contains("DEADLINE_EXCEEDED") || outcome.errors.contains("CANCELLED");
}

}  // namespace

void KindCounts::Add(const Outcome& outcome, Nanos latency_of_call, Nanos slo) {
  ++calls;
  ok_inputs += outcome.ok_inputs;
  tokens += outcome.tokens;
  for (const auto& [code, inputs] : outcome.errors) errors[code] += inputs;
  const bool good = outcome.errors.empty() && outcome.ok_inputs > 0;
  if (good || OutOfTime(outcome)) latency.Add(latency_of_call);
  if (!good || latency_of_call > slo) return;
  ++good_calls;
  good_inputs += outcome.ok_inputs;
}

void KindCounts::Merge(const KindCounts& other) {
  latency.Merge(other.latency);
  calls += other.calls;
  good_calls += other.good_calls;
  ok_inputs += other.ok_inputs;
  good_inputs += other.good_inputs;
  tokens += other.tokens;
  for (const auto& [code, inputs] : other.errors) errors[code] += inputs;
}

uint64_t KindCounts::error_inputs() const {
  uint64_t sum = 0;
  for (const auto& [code, inputs] : errors) sum += inputs;
  return sum;
}

KindCounts RunSummary::Total() const {
  KindCounts total;
  for (const KindCounts& kind : kinds) total.Merge(kind);
  return total;
}

std::map<std::string, double> RunSummary::Values() const {
  const KindCounts total = Total();
  const auto calls = static_cast<double>(total.calls);
  const auto inputs = static_cast<double>(total.ok_inputs);
  const auto scheduled = static_cast<double>(scheduled_calls);
  const auto errors = static_cast<double>(total.error_inputs());
  return {{"p50_ms", total.latency.PercentileMillis(0.5)},
          {"p90_ms", total.latency.PercentileMillis(0.9)},
          {"p95_ms", total.latency.PercentileMillis(0.95)},
          {"p99_ms", total.latency.PercentileMillis(0.99)},
          {"p999_ms", total.latency.PercentileMillis(0.999)},
          {"max_ms", total.latency.MaxMillis()},
          {"mean_ms", total.latency.MeanMillis()},
          {"calls_per_second", Ratio(calls, elapsed_seconds)},
          {"inputs_per_second", Ratio(inputs, elapsed_seconds)},
          {"tokens_per_second", Ratio(static_cast<double>(total.tokens), elapsed_seconds)},
          {"goodput", Ratio(static_cast<double>(total.good_inputs), elapsed_seconds)},
          {"goodput_ratio", Ratio(static_cast<double>(total.good_calls), scheduled)},
          {"error_ratio", Ratio(errors, errors + inputs)},
          {"missed_ratio", Ratio(static_cast<double>(missed_calls), scheduled)},
          {"send_lag_p99_ms", send_lag.PercentileMillis(0.99)}};
}

std::string RunSummary::WhyNotHeld() const {
  if (!not_held.empty() || offered_rate == 0) return not_held;
  const auto values = Values();
  char why[160] = "";
  if (values.at("missed_ratio") > kHeldMissedRatio) {
    std::snprintf(why, sizeof(why), "%.1f %% of the calls were not sent: max_in_flight %llu was reached",
                  100 * values.at("missed_ratio"), static_cast<unsigned long long>(max_in_flight));
  } else if (values.at("send_lag_p99_ms") > kHeldLagMillis) {
    std::snprintf(why, sizeof(why), "calls were sent late: p99 of the lag is %.0f ms, the bound %.0f ms",
                  values.at("send_lag_p99_ms"), kHeldLagMillis);
  }
  return why;
}

}  // namespace tributary::bench
