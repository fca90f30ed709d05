#include "server/server_app.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "google/protobuf/stubs/logging.h"
#include "server/call_tracker.h"
#include "server/embed_service.h"
#include "server/error_log.h"
#include "server/grpc_server.h"
#include "server/lifecycle.h"
#include "server/progress_watchdog.h"
#include "server/rpc_observer.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace tributary {
namespace {

void SetUpLogging(const LogOptions& options) {
  auto logger = std::make_shared<spdlog::logger>("tributary", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(options.level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  // Protobuf would write a line for every request with invalid UTF-8; the client gets the reason instead.
  google::protobuf::SetLogHandler(nullptr);
}

// Whole or not at all: scripts wait for the file to appear.
bool WritePortFile(const std::string& path, int grpc_port) {
  const std::string temporary = path + ".part";
  {
    std::ofstream file(temporary);
    file << "grpc_port=" << grpc_port << "\n";
    if (!file.flush()) return false;
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  return !error;
}

}  // namespace

int RunServer(const ServerConfig& config, const EngineFactory& make_engine, const std::string& port_file) {
  BlockStopSignals();
  SetUpLogging(config.log);
  spdlog::info("configuration:\n{}", PrintConfig(config));

  // Destroyed in reverse: the server and its calls first, then what they borrow.
  SteadyClock clock;
  Observer observer;
  RpcObserver rpc_observer;
  ErrorLog errors(&clock, config.log.max_errors_per_second, [](const std::string& line) { spdlog::error("{}", line); });
  CallTracker calls;
  const TimePoint load_begin = clock.Now();
  absl::StatusOr<std::unique_ptr<Engine>> engine = make_engine(config.engine, &clock, &observer);
  if (!engine.ok()) {
    spdlog::critical("cannot load the engine: {}", engine.status().ToString());
    return 1;
  }
  EmbedService service({.engine = engine->get(),
                        .clock = &clock,
                        .observer = &rpc_observer,
                        .errors = &errors,
                        .calls = &calls,
                        .limits = {.max_inputs_per_call = config.engine.admission.max_inputs_per_call,
                                   .max_response_bytes = config.server.max_response_bytes,
                                   .stream_window_inputs = config.server.stream_window_inputs},
                        .models = {}});
  absl::StatusOr<std::unique_ptr<GrpcServer>> server = GrpcServer::Create(config.server, &service);
  if (!server.ok()) {
    spdlog::critical("cannot start: {}", server.status().ToString());
    return 1;
  }
  size_t left = 0;
  {
    const ProgressWatchdog watchdog(engine->get(), config.health, [&](bool serving, const std::string& reason) {
      (*server)->SetServing(serving);
      if (serving) {
        spdlog::info("the engine makes progress again: health is SERVING");
      } else {
        spdlog::error("{}: health is NOT_SERVING", reason);
      }
    });
    if (!port_file.empty() && !WritePortFile(port_file, (*server)->port())) {
      spdlog::critical("cannot write --port-file {}", port_file);
      return 1;
    }
    spdlog::info("ready after {:.2f} s: gRPC on port {}", ToSeconds(clock.Now() - load_begin), (*server)->port());
    const int signal = WaitForStopSignal();
    spdlog::info("signal {}: draining {} calls", signal, calls.open());
    left = Drain(**server, **engine, calls, config.lifecycle.drain_timeout);
  }
  if (left > 0) {
    // Destroying the server would wait for these calls without limit.
    spdlog::error("{} calls were still unanswered after {} s: leaving them", left,
                  ToSeconds(config.lifecycle.drain_timeout));
    spdlog::shutdown();
    std::_Exit(2);
  }
  spdlog::info("drained: goodbye");
  return 0;
}

}  // namespace tributary
