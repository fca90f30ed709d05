// The one reactor behind EmbedText, EmbedImage and EmbedPair: bytes in, engine, bytes out.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/api/cancel_token.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/call_environment.h"
#include "server/grpc_status.h"
#include "server/wire_convert.h"
#include "server/wire_message.h"

namespace tributary {

// Who makes it: EmbedService, on a gRPC thread, which parses and submits at once. Serialising and Finish run on the
// engine's completion thread.
// Invariants: Finish is called exactly once: here where the call is refused, or by the completion; gRPC then calls
// OnDone,
//   which is the end of the object.
// Ownership: owns itself.
template <typename RequestProto>
class EmbedReactor final : public grpc::ServerUnaryReactor {
 public:
  EmbedReactor(const CallEnvironment& environment, RpcMethod method, const grpc::CallbackServerContext& context,
               grpc::ByteBuffer* request, grpc::ByteBuffer* response)
      : environment_(environment),
        record_(environment, method),
        deadline_(environment.Deadline(context)),
        response_(response),
        counted_(environment.calls->TryAdd()) {
    if (absl::Status status = Start(request); !status.ok()) FinishWith(status);
  }

  void OnCancel() override {
    // gRPC also cancels calls whose deadline has passed: those the engine drops by itself, counted as expired.
    if (environment_.clock->Now() < deadline_) cancel_->Cancel();
  }

  void OnDone() override {
    record_.Finished(code_);
    environment_.answers->Release(reserved_bytes_);
    if (counted_) environment_.calls->Remove();
    delete this;
  }

 private:
  // Not OK: nothing was submitted, and the call ends with this status.
  absl::Status Start(grpc::ByteBuffer* bytes) {
    auto message = ParseMessage<RequestProto>(bytes, environment_.limits.max_inputs_per_call);
    if (!message.ok()) return message.status();
    absl::StatusOr<WireRequest> call = FromWire(*std::move(message));
    if (!call.ok()) return call.status();
    const absl::StatusOr<size_t> answer_bytes = environment_.CheckCall(*call);
    if (!answer_bytes.ok()) return answer_bytes.status();
    if (absl::Status status = environment_.answers->Reserve(*answer_bytes); !status.ok()) return status;
    reserved_bytes_ = *answer_bytes;
    encoding_ = call->encoding;
    errors_ = std::move(call->errors);
    EmbedRequest request = std::move(call->request);
    request.options.deadline = deadline_;
    request.cancel = cancel_;
    return environment_.engine->Submit(std::move(request),
                                       [this](EmbedResponse response) { Answer(std::move(response)); });
  }

  void Answer(EmbedResponse response) {
    absl::Status status;
    try {
      PutErrors(errors_, &response);
      environment_.LogFaults(record_.method(), response);
      google::protobuf::Arena arena;
      auto* message = google::protobuf::Arena::CreateMessage<v1::EmbedResponse>(&arena);
      ToWire(response, encoding_, message);
      *response_ = SerializeMessage(*message);
    } catch (const std::exception& error) {
      status = absl::ResourceExhaustedError(absl::StrCat("the answer could not be written: ", error.what()));
    }
    FinishWith(status);
  }

  void FinishWith(const absl::Status& status) {
    environment_.LogFaults(record_.method(), status);
    grpc::Status wire = ToGrpcStatus(status);
    code_ = wire.error_code();
    Finish(std::move(wire));
  }

  const CallEnvironment& environment_;
  const CallRecord record_;
  const TimePoint deadline_;
  grpc::ByteBuffer* const response_;  // gRPC's, sent by Finish
  const bool counted_;                // not while draining: then the engine refuses the call
  const std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  // Written before Submit, read by the completion.
  std::vector<InputError> errors_;
  Encoding encoding_ = Encoding::kFloat32;
  size_t reserved_bytes_ = 0;  // for the answer, until it is sent
  // Written before Finish, read in OnDone.
  grpc::StatusCode code_ = grpc::StatusCode::OK;
};

}  // namespace tributary
