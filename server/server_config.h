// Everything the program can be told: YAML file, overrides, defaults. config/README.md lists every key.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/options.h"

namespace tributary {

struct TlsOptions {
  std::string certificate;  // PEM file; empty: plain text
  std::string key;
  std::string client_ca;  // set: clients must show a certificate it signed
};

struct GrpcServerOptions {
  std::string listen = "0.0.0.0:50051";  // port 0: one the system picks
  size_t max_request_bytes = size_t{64} << 20;
  size_t max_response_bytes = size_t{4} << 20;
  size_t max_unsent_answer_bytes = size_t{256} << 20;  // of all calls together
  size_t stream_window_inputs = 512;
  size_t max_streams_per_connection = 1024;
  size_t memory_quota_bytes = size_t{1} << 30;  // of gRPC's own buffers
  Duration keepalive_time = std::chrono::seconds(60);
  Duration keepalive_timeout = std::chrono::seconds(20);
  Duration min_client_ping_interval = std::chrono::seconds(10);
  Duration max_connection_age{0};  // 0: unlimited
  Duration max_connection_idle{0};
  TlsOptions tls = {};
};

// The service that loads and unloads models; its TLS is the server's.
struct AdminOptions {
  std::string listen = {};      // empty: no admin port
  std::string token_file = {};  // empty: `listen` must be a loopback or unix: address
};

struct LifecycleOptions {
  Duration drain_timeout = std::chrono::seconds(30);
};

// When the engine counts as stuck, and health says NOT_SERVING.
struct HealthOptions {
  Duration check_interval = std::chrono::seconds(1);
  Duration max_batch_time = std::chrono::seconds(30);  // of one batch on a lane
  // Of the oldest waiting item, where no batch was done for as long.
  Duration max_queue_age = std::chrono::seconds(120);
};

struct MetricsOptions {
  std::string listen = "0.0.0.0:9464";  // empty: no metrics port
  bool gpu_enabled = true;              // GPU readings through NVML, where there is one
  std::string gpu_library = "libnvidia-ml.so.1";
  Duration gpu_period = std::chrono::seconds(1);
};

struct LogOptions {
  std::string level = "info";
  size_t max_errors_per_second = 10;
};

struct ServerConfig {
  std::string folder;  // of the file
  GrpcServerOptions server;
  AdminOptions admin;
  LifecycleOptions lifecycle;
  HealthOptions health;
  MetricsOptions metrics;
  LogOptions log;
  EngineOptions engine;  // its keys stand at the top level of the file
};

// Value of an environment variable for ${NAME} in string values; nullopt: not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// The process's environment; TRIBUTARY_DEPS, where it is not set, is the folder scripts/setup fills by default.
Environment ProcessEnvironment();

// Defaults, then the file, then `overrides` ("schedule.text.weight=2", "models.0.text.dtype=fp32") in their order.
// Relative paths in the file are relative to it; those of overrides to the working folder.
// Errors: NOT_FOUND the file cannot be read; INVALID_ARGUMENT "FILE:LINE: KEY: what is wrong" (unknown or repeated key,
//   wrong type, out of range, unset variable), or the key alone where several keys contradict each other.
absl::StatusOr<ServerConfig> LoadConfig(const std::string& path, const std::vector<std::string>& overrides,
                                        const Environment& environment);

// One entry of `models`, read as the file reads it; `name` stands for the file in messages, `folder` is where relative
// paths begin. The environment is not read: ${NAME} is an error.
// Errors: INVALID_ARGUMENT "NAME:LINE: KEY: what is wrong".
absl::StatusOr<ModelOptions> ParseModel(const std::string& text, const std::string& name, const std::string& folder);

// Whether only this machine can reach the address: "unix:...", "localhost:PORT", a loopback IPv4 or IPv6 address.
bool IsLocalAddress(const std::string& address);

// "key: value" lines, one per key, as the program prints them at start.
std::string PrintConfig(const ServerConfig& config);

}  // namespace tributary
