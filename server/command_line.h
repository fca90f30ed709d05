// The program's arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

struct CommandLine {
  enum class Action { kServe, kCheckConfig, kCheckHealth, kCheckModel, kFamilies, kVersion, kHelp };
  Action action = Action::kServe;
  std::string config;                  // empty: the installed default
  std::vector<std::string> overrides;  // KEY=VALUE of --set, --listen and --metrics-listen, in their order
  std::string port_file;               // empty: none is written
  std::string health_address;          // of kCheckHealth
  std::string model_folder;            // of kCheckModel
};

// Flags are --name=value or --name value, words joined by '-' or '_'.
// Errors: INVALID_ARGUMENT naming the argument.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

std::string_view HelpText();

}  // namespace tributary
