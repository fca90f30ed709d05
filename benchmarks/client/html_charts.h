// The charts of one run's JSON over time, for the HTML report. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

// NaN for what is no number, or not there.
double JsonNumber(const nlohmann::json& value);
double JsonNumber(const nlohmann::json& object, const std::string& key);
std::vector<double> JsonNumbers(const nlohmann::json& list, double factor);

// `run`: `result` or a probe of `search` (schema: benchmarks/README.md). `metrics_asked`: the client was to read the
// server's metrics; without them it says why their charts are missing.
std::string RunChartsHtml(const nlohmann::json& run, double slo_ms, bool metrics_asked);

}  // namespace tributary::bench
