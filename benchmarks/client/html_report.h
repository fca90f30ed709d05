// A run, or several, as one HTML file that needs nothing else: figures, charts over time, the tables of the charts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary::bench {

// `documents`: JSON of tributary-bench (schema: benchmarks/README.md), at least one. One without timelines, of an
// earlier version, gives a report without those charts. Every string in them is shown as text, whatever it holds. Pure.
// Errors: INVALID_ARGUMENT when one is not such JSON.
// Source of the charts: Chart.js (https://www.chartjs.org), carried in the page.
absl::StatusOr<std::string> HtmlReport(const std::vector<nlohmann::json>& documents);

}  // namespace tributary::bench
