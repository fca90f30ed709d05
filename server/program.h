// What the program does with its arguments, around any engine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/process_metrics.h"
#include "server/server_app.h"

namespace tributary {

// What the program asks of the models' side, beside the engine.
struct ModelTools {
  // What --check-model prints of a folder; the error where it cannot be served.
  std::function<absl::StatusOr<std::string>(const std::string& folder)> check;
  std::function<std::string()> families;  // what --families prints
};

// Serves, or answers --version, --help, --families and the --check flags on stdout. Returns the exit code: 0 done, else
// a reason is on stderr (RunServer names its own codes).
int RunProgram(const std::vector<std::string>& arguments, const EngineFactory& make_engine, const ModelTools& models,
               const BuildInfo& build);

}  // namespace tributary
