// The contract's service: every method takes raw bytes and hands its call to a reactor.
#pragma once

#include "server/call_environment.h"
#include "tributary/v1/embedding_service.grpc.pb.h"

namespace tributary {

// clang-format off
using RawEmbeddingService =
    v1::EmbeddingService::WithRawCallbackMethod_EmbedText<
    v1::EmbeddingService::WithRawCallbackMethod_EmbedImage<
    v1::EmbeddingService::WithRawCallbackMethod_EmbedPair<
    v1::EmbeddingService::WithRawCallbackMethod_EmbedStream<
    v1::EmbeddingService::WithRawCallbackMethod_ListModels<
    v1::EmbeddingService::WithRawCallbackMethod_GetModel<
    v1::EmbeddingService::Service>>>>>>;
// clang-format on

// Who calls it: gRPC's threads, one call of a method per RPC; no method blocks.
// Ownership: lives longer than the gRPC server and its calls; calls borrow the environment.
class EmbedService final : public RawEmbeddingService {
 public:
  explicit EmbedService(const CallEnvironment& environment) : environment_(environment) {}

  grpc::ServerUnaryReactor* EmbedText(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* EmbedImage(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* EmbedPair(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* EmbedStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;

 private:
  const CallEnvironment environment_;
};

}  // namespace tributary
