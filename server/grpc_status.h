// The one mapping from the engine's statuses to what clients see, as a call's status and as an input's error.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace tributary {

// Longest message sent to a client, in bytes: statuses travel in HTTP/2 headers, which are limited to 8 KiB.
inline constexpr size_t kMaxMessageBytes = 512;

// `message` cut to kMaxMessageBytes, with every byte that is not UTF-8 replaced by '?': messages may quote input, and
// protobuf refuses to carry anything else.
std::string BoundedMessage(std::string_view message);

// Codes keep their number, but what the contract does not know (UNKNOWN, ABORTED, DATA_LOSS, ...) becomes INTERNAL.
absl::StatusCode ContractCode(absl::StatusCode code);

grpc::Status ToGrpcStatus(const absl::Status& status);
void ToRpcStatus(const absl::Status& status, google::rpc::Status* out);

}  // namespace tributary
