// The listening gRPC server: port, limits, health, reflection, shutdown.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "grpcpp/server.h"
#include "server/server_config.h"

namespace tributary {

// The key its address comes from, for messages, and the service that health speaks of.
struct GrpcServerName {
  std::string key = "server.listen";
  std::string service = "tributary.v1.EmbeddingService";
};

// Invariants: health is per service and overall, both always equal; after StopServing it stays NOT_SERVING.
// Thread-safety: SetServing and StopServing from any thread; Shutdown once.
// Ownership: borrows the service; destroy before it.
class GrpcServer {
 public:
  // Listens and serves when it returns, with health SERVING.
  // Errors: INVALID_ARGUMENT a certificate file cannot be read; UNAVAILABLE the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(const GrpcServerOptions& options, grpc::Service* service,
                                                            GrpcServerName name = {});
  ~GrpcServer();

  // The port listened on: the system's choice where the option says 0.
  int port() const { return port_; }
  void SetServing(bool serving);
  void StopServing();
  // Closes the port, lets the last bytes leave, then cuts what is still open. Blocks for at most `grace` and the
  // handlers' own ends.
  void Shutdown(Duration grace);

 private:
  explicit GrpcServer(GrpcServerName name) : name_(std::move(name)) {}
  const GrpcServerName name_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tributary
