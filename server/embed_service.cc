#include "server/embed_service.h"

#include <utility>

#include "server/embed_reactor.h"
#include "server/stream_reactor.h"
#include "server/wire_message.h"

namespace tributary {
namespace {

// gRPC shows the request as const, but owns it as a plain object that nothing reads after the handler; emptying it
// frees the bytes of large images as soon as they are parsed instead of at the end of the call.
grpc::ByteBuffer* Consume(const grpc::ByteBuffer* request) { return const_cast<grpc::ByteBuffer*>(request); }

// A call that is answered at once: no drain waits for it. Owns itself.
class InstantReactor final : public grpc::ServerUnaryReactor {
 public:
  InstantReactor(const CallEnvironment& environment, RpcMethod method) : record_(environment, method) {}
  void FinishWith(const absl::Status& status) {
    grpc::Status wire = ToGrpcStatus(status);
    code_ = wire.error_code();
    Finish(std::move(wire));
  }
  void OnDone() override {
    record_.Finished(code_);
    delete this;
  }

 private:
  const CallRecord record_;
  grpc::StatusCode code_ = grpc::StatusCode::OK;
};

absl::Status AnswerListModels(const CallEnvironment& environment, grpc::ByteBuffer* request,
                              grpc::ByteBuffer* response) {
  auto message = ParseMessage<v1::ListModelsRequest>(request);
  if (!message.ok()) return message.status();
  v1::ListModelsResponse answer;
  const ServedModels::List served = environment.models->Get();
  for (const ModelInfo& model : *served) ToWire(model, answer.add_models());
  *response = SerializeMessage(answer);
  return absl::OkStatus();
}

absl::Status AnswerGetModel(const CallEnvironment& environment, grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  auto message = ParseMessage<v1::GetModelRequest>(request);
  if (!message.ok()) return message.status();
  const ServedModels::List served = environment.models->Get();
  const ModelInfo* model = FindModel(*served, (*message)->name());
  if (model == nullptr) return NoSuchModel(*served, (*message)->name());
  v1::Model answer;
  ToWire(*model, &answer);
  *response = SerializeMessage(answer);
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* EmbedService::EmbedText(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return new EmbedReactor<v1::EmbedTextRequest>(environment_, RpcMethod::kEmbedText, *context, Consume(request),
                                                response);
}

grpc::ServerUnaryReactor* EmbedService::EmbedImage(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return new EmbedReactor<v1::EmbedImageRequest>(environment_, RpcMethod::kEmbedImage, *context, Consume(request),
                                                 response);
}

grpc::ServerUnaryReactor* EmbedService::EmbedPair(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return new EmbedReactor<v1::EmbedPairRequest>(environment_, RpcMethod::kEmbedPair, *context, Consume(request),
                                                response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* EmbedService::EmbedStream(
    grpc::CallbackServerContext* context) {
  return new StreamReactor(environment_, *context);
}

grpc::ServerUnaryReactor* EmbedService::ListModels(grpc::CallbackServerContext* /*context*/,
                                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  auto* reactor = new InstantReactor(environment_, RpcMethod::kListModels);
  reactor->FinishWith(AnswerListModels(environment_, Consume(request), response));
  return reactor;
}

grpc::ServerUnaryReactor* EmbedService::GetModel(grpc::CallbackServerContext* /*context*/,
                                                 const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  auto* reactor = new InstantReactor(environment_, RpcMethod::kGetModel);
  reactor->FinishWith(AnswerGetModel(environment_, Consume(request), response));
  return reactor;
}

}  // namespace tributary
