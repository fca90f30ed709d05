#include "server/program.h"

#include <chrono>
#include <filesystem>
#include <iostream>

#include "google/protobuf/stubs/common.h"
#include "grpcpp/grpcpp.h"
#include "server/command_line.h"
#include "server/health_probe.h"
#include "server/server_config.h"

namespace tributary {
namespace {

// Shorter than the time containers give a health check (30 s), so that the reason is printed.
constexpr std::chrono::seconds kHealthTimeout(10);

// Of an installed program: PREFIX/bin/tributary-server -> PREFIX/share/tributary/config/tributary.yaml.
std::string InstalledConfig() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "share/tributary/config/tributary.yaml";
}

int Fail(const absl::Status& status) {
  std::cerr << "tributary-server: " << status.message() << "\n";
  return 1;
}

int PrintVersion(const BuildInfo& build) {
  std::cout << "tributary-server " << build.version << " (LibTorch " << (build.libtorch.empty() ? "-" : build.libtorch)
            << ", gRPC " << grpc::Version() << ", Protobuf "
            << google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION) << ")\n";
  return 0;
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, const EngineFactory& make_engine, const ModelTools& models,
               const BuildInfo& build) {
  const absl::StatusOr<CommandLine> command = ParseCommandLine(arguments);
  if (!command.ok()) return Fail(command.status());
  switch (command->action) {
    case CommandLine::Action::kHelp:
      std::cout << HelpText();
      return 0;
    case CommandLine::Action::kVersion:
      return PrintVersion(build);
    case CommandLine::Action::kCheckHealth: {
      const absl::Status health = ProbeHealth(command->health_address, kHealthTimeout);
      std::cout << (health.ok() ? "SERVING" : health.message()) << "\n";
      return health.ok() ? 0 : 1;
    }
    case CommandLine::Action::kCheckModel: {
      const absl::StatusOr<std::string> report = models.check(command->model_folder);
      if (!report.ok()) return Fail(report.status());
      std::cout << *report;
      return 0;
    }
    case CommandLine::Action::kFamilies:
      std::cout << models.families();
      return 0;
    case CommandLine::Action::kCheckConfig:
    case CommandLine::Action::kServe:
      break;
  }
  const std::string path = command->config.empty() ? InstalledConfig() : command->config;
  const absl::StatusOr<ServerConfig> config = LoadConfig(path, command->overrides, ProcessEnvironment());
  if (!config.ok()) return Fail(config.status());
  if (command->action == CommandLine::Action::kCheckConfig) {
    std::cout << PrintConfig(*config);
    return 0;
  }
  return RunServer(*config, make_engine, build, command->port_file);
}

}  // namespace tributary
