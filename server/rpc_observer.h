// What the RPC layer reports about its calls. server/prometheus_observer turns it into metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/clock.h"

namespace tributary {

// Of both services.
enum class RpcMethod : uint8_t {
  kEmbedText,
  kEmbedImage,
  kEmbedPair,
  kEmbedStream,
  kListModels,
  kGetModel,
  kLoadModel,
  kUnloadModel
};
inline constexpr size_t kRpcMethodCount = 8;

// The method's name in the contract: bounded label values.
constexpr std::string_view RpcMethodName(RpcMethod method) {
  constexpr std::array<std::string_view, kRpcMethodCount> kNames = {
      "EmbedText", "EmbedImage", "EmbedPair", "EmbedStream", "ListModels", "GetModel", "LoadModel", "UnloadModel"};
  return kNames[static_cast<size_t>(method)];
}

// Called from gRPC threads: implementations must not block, log or throw.
// Thread-safety: every method from any thread at once.
class RpcObserver {
 public:
  virtual ~RpcObserver() = default;
  // A call arrived. Each is followed by exactly one OnRpcFinished.
  virtual void OnRpcStarted(RpcMethod /*method*/) {}
  // A call is over: `code` as sent to the client, `elapsed` from its arrival until gRPC was done with it.
  virtual void OnRpcFinished(RpcMethod /*method*/, absl::StatusCode /*code*/, Duration /*elapsed*/) {}
};

}  // namespace tributary
