// The contract's messages <-> the engine's types. Pure: no I/O, no gRPC, no state.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/types.h"
#include "server/vector_encoding.h"
#include "tributary/v1/embedding_service.pb.h"

namespace tributary {

// An input that is wrong by the message alone. It goes to the engine as an empty one, so that a call of such inputs is
// admitted, bounded and refused like any other.
struct InputError {
  size_t index = 0;
  absl::Status status;
};

// One call on its way in. Views inside `request` borrow from the message, which `request.owner` keeps alive.
struct WireRequest {
  EmbedRequest request;
  std::vector<InputError> errors;          // what to say of the inputs the engine found empty
  Encoding encoding = Encoding::kFloat32;  // of the answer's vectors
};

// Errors concern the whole call: INVALID_ARGUMENT an enum value the contract does not know, no input.
absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedTextRequest> message);
absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedImageRequest> message);
absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedPairRequest> message);
// One input of a stream: a text, image or pair request with one input.
absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedStreamRequest> message);

// Says of each malformed input what was wrong with it, where the engine only found it empty.
void PutErrors(const std::vector<InputError>& errors, EmbedResponse* response);

// The most bytes the answer to one input takes on the wire, its error included, with vectors of `dimensions` numbers.
size_t MaxResultBytes(size_t dimensions, RequestKind kind, Encoding encoding);

void ToWire(const EmbedResult& result, Encoding encoding, v1::EmbedResult* out);
void ToWire(const EmbedResponse& response, Encoding encoding, v1::EmbedResponse* out);
void ToWire(const ModelInfo& info, v1::Model* out);

}  // namespace tributary
