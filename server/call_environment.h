// What every call of the embedding service needs at hand, and the checks and bookkeeping all calls share.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/base/clock.h"
#include "grpcpp/server_context.h"
#include "server/answer_budget.h"
#include "server/call_tracker.h"
#include "server/error_log.h"
#include "server/rpc_observer.h"
#include "server/served_models.h"
#include "server/wire_convert.h"

namespace tributary {

// Limits of one call. Beyond: INVALID_ARGUMENT with the value and the limit.
struct CallLimits {
  size_t max_inputs_per_call = 1024;
  size_t max_response_bytes = size_t{4} << 20;  // a client's default receive limit
  size_t stream_window_inputs = 512;            // inputs of one stream in flight or with their answer unsent
};

// Ownership: everything pointed to outlives the gRPC server.
struct CallEnvironment {
  Engine* engine = nullptr;
  const Clock* clock = nullptr;
  RpcObserver* observer = nullptr;
  ErrorLog* errors = nullptr;
  CallTracker* calls = nullptr;
  AnswerBudget* answers = nullptr;
  CallLimits limits;
  const ServedModels* models = nullptr;

  // The most bytes the answer can take.
  // Errors: NOT_FOUND no such model; INVALID_ARGUMENT over a limit of the call.
  absl::StatusOr<size_t> CheckCall(const WireRequest& call) const;
  // The client's deadline on the engine's clock.
  TimePoint Deadline(const grpc::CallbackServerContext& context) const;
  // Logs `status` and the results' statuses where they are the server's own fault.
  void LogFaults(RpcMethod method, const absl::Status& status) const;
  void LogFaults(RpcMethod method, const EmbedResponse& response) const;
};

// NOT_FOUND naming the served models.
absl::Status NoSuchModel(const std::vector<ModelInfo>& models, std::string_view name);

// One call's start and end as the observer sees them. Lives in the reactor; Finished() is called in OnDone.
class CallRecord {
 public:
  CallRecord(const CallEnvironment& environment, RpcMethod method)
      : environment_(environment), method_(method), started_(environment.clock->Now()) {
    environment_.observer->OnRpcStarted(method_);
  }
  RpcMethod method() const { return method_; }
  void Finished(grpc::StatusCode code) const {
    environment_.observer->OnRpcFinished(method_, static_cast<absl::StatusCode>(code),
                                         environment_.clock->Now() - started_);
  }

 private:
  const CallEnvironment& environment_;
  const RpcMethod method_;
  const TimePoint started_;
};

}  // namespace tributary
