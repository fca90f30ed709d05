#include "benchmarks/client/report.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <fstream>

namespace tributary::bench {
namespace {

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  return line;
}

std::string Row(const char* name, const KindCounts& counts) {
  const LatencyHistogram& latency = counts.latency;
  return Format("%-7s %9llu %9llu %8llu %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n", name,
                static_cast<unsigned long long>(counts.calls), static_cast<unsigned long long>(counts.ok_inputs),
                static_cast<unsigned long long>(counts.error_inputs()), latency.MeanMillis(),
                latency.PercentileMillis(0.5), latency.PercentileMillis(0.9), latency.PercentileMillis(0.99),
                latency.PercentileMillis(0.999), latency.MaxMillis());
}

nlohmann::json KindJson(const KindCounts& counts) {
  return {{"calls", counts.calls},
          {"good_calls", counts.good_calls},
          {"ok_inputs", counts.ok_inputs},
          {"good_inputs", counts.good_inputs},
          {"tokens", counts.tokens},
          {"errors", counts.errors},
          {"mean_ms", counts.latency.MeanMillis()},
          {"p50_ms", counts.latency.PercentileMillis(0.5)},
          {"p90_ms", counts.latency.PercentileMillis(0.9)},
          {"p95_ms", counts.latency.PercentileMillis(0.95)},
          {"p99_ms", counts.latency.PercentileMillis(0.99)},
          {"p999_ms", counts.latency.PercentileMillis(0.999)},
          {"max_ms", counts.latency.MaxMillis()}};
}

// Three decimals are enough for a chart, and a third of the bytes. NaN becomes null.
nlohmann::json Rounded(const std::vector<double>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const double value : values) list.push_back(std::round(value * 1000) / 1000);
  return list;
}

nlohmann::json TimelineJson(const Timeline& timeline) {
  if (timeline.start_seconds.empty() && timeline.samples + timeline.failed_samples == 0) return nullptr;
  nlohmann::json columns = nlohmann::json::object();
  for (const auto& [name, values] : timeline.columns) columns[name] = Rounded(values);
  return {{"width_seconds", timeline.width_seconds},
          {"start_seconds", timeline.start_seconds},
          {"columns", columns},
          {"samples", timeline.samples},
          {"failed_samples", timeline.failed_samples}};
}

}  // namespace

std::string ProgressLine(const Progress& progress) {
  return Format("%6.0f s%s  answered %llu  errors %llu  open %zu  not sent %llu  p50 %.1f ms  p99 %.1f ms",
                progress.seconds, progress.warming_up ? " (warm-up)" : "",
                static_cast<unsigned long long>(progress.answered),
                static_cast<unsigned long long>(progress.error_inputs), progress.in_flight,
                static_cast<unsigned long long>(progress.missed), progress.p50_ms, progress.p99_ms);
}

std::string Table(const RunSummary& summary, double slo_ms) {
  const auto values = summary.Values();
  const KindCounts total = summary.Total();
  std::string out = Format("%-7s %9s %9s %8s %9s %9s %9s %9s %9s %9s\n", "kind", "calls", "inputs", "errors", "mean ms",
                           "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms");
  for (size_t i = 0; i < kKindCount; ++i) {
    if (summary.kinds[i].calls > 0) out += Row(kKindNames[i], summary.kinds[i]);
  }
  out += Row("all", total);
  for (const auto& [code, inputs] : total.errors) {
    out += Format("errors: %s %llu\n", code.c_str(), static_cast<unsigned long long>(inputs));
  }
  if (summary.offered_rate > 0) out += Format("offered     %10.1f calls/s\n", summary.offered_rate);
  out += Format("answered    %10.1f calls/s  %.1f inputs/s  %.0f tokens/s\n", values.at("calls_per_second"),
                values.at("inputs_per_second"), values.at("tokens_per_second"));
  out += Format("goodput     %10.1f inputs/s within %.0f ms; %.2f %% of the calls\n", values.at("goodput"), slo_ms,
                100 * values.at("goodput_ratio"));
  out += Format("client      most open %llu, not sent %llu, given up %llu, send lag p99 %.2f ms\n",
                static_cast<unsigned long long>(summary.max_in_flight),
                static_cast<unsigned long long>(summary.missed_calls),
                static_cast<unsigned long long>(summary.given_up_calls), values.at("send_lag_p99_ms"));
  if (!summary.not_held.empty()) out += "THE LOAD WAS NOT HELD: " + summary.not_held + "\n";
  return out;
}

nlohmann::json ToJson(const RunSummary& summary) {
  nlohmann::json kinds = nlohmann::json::object();
  for (size_t i = 0; i < kKindCount; ++i) {
    if (summary.kinds[i].calls > 0) kinds[kKindNames[i]] = KindJson(summary.kinds[i]);
  }
  return {{"held", summary.not_held.empty()},           {"not_held", summary.not_held},
          {"offered_rate", summary.offered_rate},       {"window_seconds", summary.window_seconds},
          {"elapsed_seconds", summary.elapsed_seconds}, {"scheduled_calls", summary.scheduled_calls},
          {"missed_calls", summary.missed_calls},       {"given_up_calls", summary.given_up_calls},
          {"max_in_flight", summary.max_in_flight},     {"values", summary.Values()},
          {"errors", summary.Total().errors},           {"kinds", kinds},
          {"timeline", TimelineJson(summary.load)},     {"server_timeline", TimelineJson(summary.server)}};
}

nlohmann::json ToJson(const std::vector<Probe>& probes) {
  nlohmann::json list = nlohmann::json::array();
  for (const Probe& probe : probes) {
    list.push_back({{"rate", probe.rate},
                    {"passed", probe.passed},
                    {"why_not", probe.why_not},
                    {"values", probe.values},
                    {"timeline", TimelineJson(probe.load)},
                    {"server_timeline", TimelineJson(probe.server)}});
  }
  return list;
}

nlohmann::json MachineInfo() {
  std::string cpu = "unknown";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      cpu = line.substr(line.find(": ") + 2);
      break;
    }
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof(cpus), &cpus);
  return {{"cpu", cpu},
          {"cores", CPU_COUNT(&cpus)},
          {"memory_bytes", static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)}};
}

std::string UtcNow() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace tributary::bench
