#include "server/server_app.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "google/protobuf/stubs/logging.h"
#include "server/admin_server.h"
#include "server/answer_budget.h"
#include "server/call_tracker.h"
#include "server/embed_service.h"
#include "server/engine_metrics.h"
#include "server/error_log.h"
#include "server/gpu_monitor.h"
#include "server/grpc_server.h"
#include "server/lifecycle.h"
#include "server/metrics_server.h"
#include "server/progress_watchdog.h"
#include "server/prometheus_observer.h"
#include "server/served_models.h"
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
bool WritePortFile(const std::string& path, int grpc_port, int metrics_port, int admin_port) {
  const std::string temporary = path + ".part";
  {
    std::ofstream file(temporary);
    file << "grpc_port=" << grpc_port << "\n";
    if (metrics_port != 0) file << "metrics_port=" << metrics_port << "\n";
    if (admin_port != 0) file << "admin_port=" << admin_port << "\n";
    if (!file.flush()) return false;
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  return !error;
}

// Null where metrics.listen is empty. The engine must outlive it.
absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetrics(const MetricsOptions& options, const Engine* engine,
                                                            const BuildInfo& build,
                                                            std::shared_ptr<PrometheusObserver> observer,
                                                            std::shared_ptr<AnswerBudget> answers) {
  if (options.listen.empty()) return nullptr;
  auto gpus = std::make_shared<GpuMonitor>(
      GpuMonitorOptions{.enabled = options.gpu_enabled, .library = options.gpu_library, .period = options.gpu_period});
  if (const std::string problem = gpus->problem(); !problem.empty()) spdlog::info("no GPU readings: {}", problem);
  return MetricsServer::Create(options.listen,
                               {std::move(observer), std::move(answers), std::make_shared<EngineMetrics>(engine),
                                std::move(gpus), std::make_shared<ProcessMetrics>(build)});
}

CallLimits Limits(const ServerConfig& config) {
  return {.max_inputs_per_call = config.engine.admission.max_inputs_per_call,
          .max_response_bytes = config.server.max_response_bytes,
          .stream_window_inputs = config.server.stream_window_inputs};
}

int CannotStart(const absl::Status& status) {
  spdlog::critical("cannot start: {}", status.ToString());
  return 1;
}

}  // namespace

int RunServer(const ServerConfig& config, const EngineFactory& make_engine, const BuildInfo& build,
              const std::string& port_file) {
  BlockStopSignals();
  SetUpLogging(config.log);
  spdlog::info("tributary-server {}, configuration:\n{}", build.version, PrintConfig(config));

  // Destroyed in reverse: the servers and their calls first, then what they borrow.
  SteadyClock clock;
  const auto observer = std::make_shared<PrometheusObserver>();
  ErrorLog errors(&clock, config.log.max_errors_per_second, [](const std::string& line) { spdlog::error("{}", line); });
  CallTracker calls;
  const auto answers = std::make_shared<AnswerBudget>(config.server.max_unsent_answer_bytes);
  const TimePoint load_begin = clock.Now();
  const absl::StatusOr<std::unique_ptr<Engine>> engine = make_engine(config.engine, &clock, observer.get());
  if (!engine.ok()) return CannotStart(engine.status());
  ServedModels models(engine->get());
  EmbedService service({.engine = engine->get(),
                        .clock = &clock,
                        .observer = observer.get(),
                        .errors = &errors,
                        .calls = &calls,
                        .answers = answers.get(),
                        .limits = Limits(config),
                        .models = &models});
  const absl::StatusOr<std::unique_ptr<MetricsServer>> metrics =
      StartMetrics(config.metrics, engine->get(), build, observer, answers);
  if (!metrics.ok()) return CannotStart(metrics.status());
  const int metrics_port = *metrics == nullptr ? 0 : (*metrics)->port();
  const absl::StatusOr<std::unique_ptr<GrpcServer>> server = GrpcServer::Create(config.server, &service);
  if (!server.ok()) return CannotStart(server.status());
  const absl::StatusOr<std::unique_ptr<AdminServer>> admin =
      AdminServer::Create(config, {.engine = engine->get(),
                                   .models = &models,
                                   .clock = &clock,
                                   .observer = observer.get(),
                                   .errors = &errors,
                                   .worker = nullptr,
                                   .token = {},
                                   .config_folder = {},
                                   .log = [](const std::string& line) { spdlog::info("{}", line); }});
  if (!admin.ok()) return CannotStart(admin.status());
  const int admin_port = *admin == nullptr ? 0 : (*admin)->port();
  DrainResult drained;
  bool admin_idle = true;
  {
    const ProgressWatchdog watchdog(engine->get(), config.health, [&](bool serving, const std::string& reason) {
      (*server)->SetServing(serving);
      if (serving) {
        spdlog::info("the engine makes progress again: health is SERVING");
      } else {
        spdlog::error("{}: health is NOT_SERVING", reason);
      }
    });
    if (!port_file.empty() && !WritePortFile(port_file, (*server)->port(), metrics_port, admin_port)) {
      return CannotStart(absl::UnavailableError("--port-file: cannot write " + port_file));
    }
    const auto shown = [](int port) { return port == 0 ? "none" : std::to_string(port); };
    spdlog::info("ready after {:.2f} s: gRPC on port {}, metrics on port {}, admin on port {}",
                 ToSeconds(clock.Now() - load_begin), (*server)->port(), shown(metrics_port), shown(admin_port));
    const int signal = WaitForStopSignal();
    spdlog::info("signal {}: draining {} calls", signal, calls.open());
    const TimePoint end = clock.Now() + config.lifecycle.drain_timeout;
    if (*admin != nullptr) (*admin)->StopServing();
    drained = Drain(**server, **engine, calls, config.lifecycle.drain_timeout);
    // A model that is being loaded cannot be stopped half way.
    if (drained.unanswered == 0 && *admin != nullptr) admin_idle = (*admin)->Shutdown(end);
  }
  if (drained.unanswered > 0) {
    // Destroying the server would wait for these calls without limit.
    spdlog::error("{} calls were still unanswered after {} s: leaving them", drained.unanswered,
                  ToSeconds(config.lifecycle.drain_timeout));
    spdlog::shutdown();
    std::_Exit(2);
  }
  if (!admin_idle) {
    spdlog::error("a model was still being loaded or unloaded after {} s: leaving it",
                  ToSeconds(config.lifecycle.drain_timeout));
    spdlog::shutdown();
    std::_Exit(2);
  }
  if (drained.unsent > 0) spdlog::warn("{} answers were cut: their clients did not read them", drained.unsent);
  spdlog::info("drained: goodbye");
  return 0;
}

}  // namespace tributary
