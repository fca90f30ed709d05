// The running service around an engine: made from a configuration, ended by SIGTERM. main.cc gives it the LibTorch
// engine, tests a torch-free one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/api/observer.h"
#include "engine/base/clock.h"
#include "server/process_metrics.h"
#include "server/server_config.h"

namespace tributary {

using EngineFactory = std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions&, Clock*, Observer*)>;

// Loads, listens, serves until SIGTERM or SIGINT, drains. `port_file`: see --port-file; may be empty.
// `build` is shown in metrics and the log.
// Returns the exit code: 0 drained, 1 could not start (logged), 2 calls were left unanswered after the drain's
// time-out.
int RunServer(const ServerConfig& config, const EngineFactory& make_engine, const BuildInfo& build,
              const std::string& port_file);

}  // namespace tributary
