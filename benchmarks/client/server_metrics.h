// The server's own metrics, read before, during and after a run.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace tributary::bench {

// Every sample of a Prometheus text page, histogram buckets left out: "name{labels}" -> value.
std::map<std::string, double> ParseMetrics(const std::string& page);

// The value of a label in "name{labels}", its escapes undone; empty: it has none.
std::string LabelValue(const std::string& sample, const std::string& label);

// GET http://HOST:PORT/metrics, at most 5 s. `target` is HOST:PORT, with or without http:// and a path.
absl::StatusOr<std::map<std::string, double>> ReadServerMetrics(const std::string& target);

}  // namespace tributary::bench
