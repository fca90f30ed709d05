// What the program does with its arguments, around any engine.
#pragma once

#include <string>
#include <vector>

#include "server/process_metrics.h"
#include "server/server_app.h"

namespace tributary {

// Serves, or answers --version, --help, --check-config or --check-health on stdout. Returns the exit code: 0 done, else
// a reason is on stderr (RunServer names its own codes).
int RunProgram(const std::vector<std::string>& arguments, const EngineFactory& make_engine, const BuildInfo& build);

}  // namespace tributary
