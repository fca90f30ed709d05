// The operators' service: models in and out of the running engine, one operation after the other.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/api/engine.h"
#include "engine/base/clock.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/admin_worker.h"
#include "server/error_log.h"
#include "server/rpc_observer.h"
#include "server/served_models.h"
#include "tributary/v1/admin_service.grpc.pb.h"

namespace tributary {

// clang-format off
using RawAdminService =
    v1::AdminService::WithRawCallbackMethod_LoadModel<
    v1::AdminService::WithRawCallbackMethod_UnloadModel<
    v1::AdminService::Service>>;
// clang-format on

// Ownership: everything pointed to outlives the gRPC server.
struct AdminEnvironment {
  Engine* engine = nullptr;
  ServedModels* models = nullptr;  // refreshed after each operation
  const Clock* clock = nullptr;
  RpcObserver* observer = nullptr;
  ErrorLog* errors = nullptr;  // calls without the token: limited per second
  AdminWorker* worker = nullptr;
  std::string token;          // every call must bring it; empty: none is needed
  std::string config_folder;  // what relative paths in a model's entry are relative to
  // A line for each operation taken on, and one for how it ended: who, what, result.
  std::function<void(const std::string& line)> log;
};

// Whether both are the same, in a time that depends on the length of `given` only. `expected` is not empty.
bool SameToken(std::string_view given, std::string_view expected);

// Who calls it: gRPC's threads. What a call asks for is checked there; the operation runs on the worker's thread, which
// also answers. A call that is cancelled meanwhile changes nothing.
// Ownership: lives longer than the gRPC server and its calls; calls borrow the environment.
class AdminService final : public RawAdminService {
 public:
  explicit AdminService(AdminEnvironment environment) : environment_(std::move(environment)) {}

  grpc::ServerUnaryReactor* LoadModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* UnloadModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;

 private:
  const AdminEnvironment environment_;
};

}  // namespace tributary
