#include "server/command_line.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tributary {

std::string_view HelpText() {
  return R"(tributary-server: text, image and text+image embeddings over gRPC.

  --config FILE             configuration (YAML, see config/README.md); default: the installed tributary.yaml
  --set KEY=VALUE           overrides one key; may be repeated (--set schedule.text.weight=2)
  --listen ADDRESS:PORT     same as --set server.listen=...; port 0: the system picks one
  --metrics-listen ADDRESS:PORT
                            same as --set metrics.listen=...; empty: no metrics port
  --port-file FILE          writes the ports listened on, once ready: grpc_port=N, metrics_port=N, admin_port=N
  --check-config            checks and prints the configuration, loads nothing; exit code 0: it is good
  --check-health ADDRESS:PORT
                            asks a server there for its health, in plain text; exit code 0: it is serving
  --check-model FOLDER      loads the model in a folder, says what it is and what of it is used, and runs it on a few
                            inputs; exit code 0: it can be served
  --families                prints the model families the program knows, as a Markdown table
  --version                 prints the versions of the program and its main libraries
  --help                    prints this
)";
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!absl::StartsWith(argument, "--")) {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", argument, "' (--help lists the flags)"));
    }
    const size_t equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '_', '-');

    const bool has_value = equals != std::string::npos;
    CommandLine::Action action = CommandLine::Action::kServe;
    if (name == "check-config") action = CommandLine::Action::kCheckConfig;
    if (name == "families") action = CommandLine::Action::kFamilies;
    if (name == "version") action = CommandLine::Action::kVersion;
    if (name == "help") action = CommandLine::Action::kHelp;
    if (action != CommandLine::Action::kServe) {
      if (has_value) return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value"));
      out.action = action;
      continue;
    }

    if (name != "config" && name != "set" && name != "listen" && name != "metrics-listen" && name != "port-file" &&
        name != "check-health" && name != "check-model") {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag '", argument, "' (--help lists the flags)"));
    }
    if (!has_value && i + 1 == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
    }
    const std::string value = has_value ? argument.substr(equals + 1) : arguments[++i];
    if (name == "config") out.config = value;
    if (name == "port-file") out.port_file = value;
    if (name == "check-health") {
      out.action = CommandLine::Action::kCheckHealth;
      out.health_address = value;
    }
    if (name == "check-model") {
      out.action = CommandLine::Action::kCheckModel;
      out.model_folder = value;
    }
    if (name == "set") out.overrides.push_back(value);
    if (name == "listen") out.overrides.push_back("server.listen=" + value);
    if (name == "metrics-listen") out.overrides.push_back("metrics.listen=" + value);
  }
  return out;
}

}  // namespace tributary
