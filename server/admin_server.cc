#include "server/admin_server.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tributary/v1/admin_service.grpc.pb.h"

namespace tributary {
namespace {

constexpr size_t kMinTokenBytes = 16;  // what guessing gives up before
constexpr size_t kMaxTokenBytes = 1024;
constexpr size_t kMaxRequestBytes = size_t{1} << 20;
// Time for the last answer to leave the socket.
constexpr Duration kCloseGrace = std::chrono::milliseconds(100);

}  // namespace

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::InvalidArgumentError(absl::StrCat("admin.token_file: cannot read ", path, ", or it is empty"));
  }
  std::string token = text.str();
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("admin.token_file: the token in ", path, " has ", token.size(),
                                                   " bytes, must be ", kMinTokenBytes, "..", kMaxTokenBytes));
  }
  // What a metadata value can carry.
  if (!std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return absl::InvalidArgumentError(absl::StrCat("admin.token_file: the token in ", path,
                                                   " must be one line of printable ASCII characters without spaces"));
  }
  return token;
}

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Create(const ServerConfig& config,
                                                                 AdminEnvironment environment) {
  if (config.admin.listen.empty()) return nullptr;
  if (!config.admin.token_file.empty()) {
    absl::StatusOr<std::string> token = ReadTokenFile(config.admin.token_file);
    if (!token.ok()) return token.status();
    environment.token = *std::move(token);
  }
  auto admin = std::unique_ptr<AdminServer>(new AdminServer());
  environment.worker = &admin->worker_;
  environment.config_folder = config.folder;
  admin->service_ = std::make_unique<AdminService>(std::move(environment));
  GrpcServerOptions options;
  options.listen = config.admin.listen;
  options.tls = config.server.tls;
  options.max_request_bytes = kMaxRequestBytes;
  absl::StatusOr<std::unique_ptr<GrpcServer>> server = GrpcServer::Create(
      options, admin->service_.get(), {.key = "admin.listen", .service = v1::AdminService::service_full_name()});
  if (!server.ok()) return server.status();
  admin->server_ = *std::move(server);
  return admin;
}

AdminServer::~AdminServer() {
  // First: the server waits for its calls, and these for their operations.
  worker_.Close();
}

void AdminServer::StopServing() {
  server_->StopServing();
  worker_.Close();
}

bool AdminServer::Shutdown(TimePoint wake_at) {
  if (!worker_.WaitUntilIdle(wake_at)) return false;
  server_->Shutdown(kCloseGrace);
  return true;
}

}  // namespace tributary
