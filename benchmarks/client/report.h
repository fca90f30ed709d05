// How a run is shown: a line a second, a table, and JSON (schema: benchmarks/README.md).
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/client/load_runner.h"
#include "benchmarks/client/run_summary.h"

namespace tributary::bench {

// One rate tried by --search.
struct Probe {
  double rate = 0;
  bool passed = false;
  std::string why_not;
  std::map<std::string, double> values;
  Timeline load;
  Timeline server;
};

std::string ProgressLine(const Progress& progress);
std::string Table(const RunSummary& summary, double slo_ms);

nlohmann::json ToJson(const RunSummary& summary);
nlohmann::json ToJson(const std::vector<Probe>& probes);
// {"cpu": ..., "cores": ..., "memory_bytes": ...} of the machine the client runs on.
nlohmann::json MachineInfo();
std::string UtcNow();  // 2026-01-31T12:00:00Z

}  // namespace tributary::bench
