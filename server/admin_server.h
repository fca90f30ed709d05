// The admin port: service, worker and gRPC server together, started and ended with the program.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "server/admin_service.h"
#include "server/admin_worker.h"
#include "server/grpc_server.h"
#include "server/server_config.h"

namespace tributary {

// Ownership: borrows what its environment points to.
class AdminServer {
 public:
  // Refuses what waits, and waits for the operation under way.
  ~AdminServer();

  // Null where admin.listen is empty. `environment` as AdminService takes it, without worker, token and folder.
  // Errors: INVALID_ARGUMENT the token file cannot be read or holds no good token; those of GrpcServer::Create.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Create(const ServerConfig& config, AdminEnvironment environment);

  int port() const { return server_->port(); }
  // The drain begins: what waits and what comes is answered with UNAVAILABLE; the operation under way goes on.
  void StopServing();
  // After StopServing. Waits for the operation under way until `wake_at`, then closes the port. False: the operation is
  // still under way, and the port open.
  bool Shutdown(TimePoint wake_at);

 private:
  AdminServer() = default;

  // Destroyed in reverse: the server and its calls first.
  AdminWorker worker_;
  std::unique_ptr<AdminService> service_;
  std::unique_ptr<GrpcServer> server_;
};

// The token in a file: one line of at least 16 printable characters without spaces; a newline at its end is not part of
// it. Errors: INVALID_ARGUMENT naming the file; the message never quotes it.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace tributary
