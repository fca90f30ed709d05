// The program: arguments, configuration, and the LibTorch engine handed to the server.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "engine/libtorch/engine_factory.h"
#include "google/protobuf/stubs/common.h"
#include "grpcpp/grpcpp.h"
#include "server/command_line.h"
#include "server/health_probe.h"
#include "server/server_app.h"
#include "server/server_config.h"

namespace {

// Shorter than the time containers give a health check (30 s), so that the reason is printed.
constexpr std::chrono::seconds kHealthTimeout(10);

// Of an installed program: PREFIX/bin/tributary-server -> PREFIX/share/tributary/config/tributary.yaml.
std::string InstalledConfig() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "share/tributary/config/tributary.yaml";
}

}  // namespace

int main(int argc, char** argv) {
  using tributary::CommandLine;
  const absl::StatusOr<CommandLine> command = tributary::ParseCommandLine({argv + 1, argv + argc});
  if (!command.ok()) {
    std::cerr << "tributary-server: " << command.status().message() << "\n";
    return 1;
  }
  if (command->action == CommandLine::Action::kHelp) {
    std::cout << tributary::HelpText();
    return 0;
  }
  if (command->action == CommandLine::Action::kVersion) {
    std::cout << "tributary-server " << TRIBUTARY_VERSION << " (LibTorch " << tributary::LibtorchVersion() << ", gRPC "
              << grpc::Version() << ", Protobuf " << google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)
              << ")\n";
    return 0;
  }
  if (command->action == CommandLine::Action::kCheckHealth) {
    const absl::Status health = tributary::ProbeHealth(command->health_address, kHealthTimeout);
    std::cout << (health.ok() ? "SERVING" : health.message()) << "\n";
    return health.ok() ? 0 : 1;
  }
  const std::string path = command->config.empty() ? InstalledConfig() : command->config;
  const absl::StatusOr<tributary::ServerConfig> config =
      tributary::LoadConfig(path, command->overrides, tributary::ProcessEnvironment());
  if (!config.ok()) {
    std::cerr << "tributary-server: " << config.status().message() << "\n";
    return 1;
  }
  if (command->action == CommandLine::Action::kCheckConfig) {
    std::cout << tributary::PrintConfig(*config);
    return 0;
  }
  return tributary::RunServer(*config, tributary::CreateLibtorchEngine, command->port_file);
}
