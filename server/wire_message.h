// Bytes of a call <-> protobuf messages. The service takes raw bytes so that what is no valid message gets
// INVALID_ARGUMENT with a reason: gRPC itself would end the call with a bare UNIMPLEMENTED.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace tributary {

// Reads `bytes` into `message` and frees them: what the message needs, it has copied.
// Errors: INVALID_ARGUMENT naming the message: the bytes are no protobuf of its shape, a string is not UTF-8, or there
//   are more fields than `max_inputs` inputs need (admission.max_inputs_per_call). A field of two bytes may cost fifty
//   in memory, so they are counted before anything is built.
absl::Status ParseInto(grpc::ByteBuffer* bytes, google::protobuf::Message* message, size_t max_inputs);

// The message on its own arena, which lives as long as any copy of the pointer.
template <typename Proto>
absl::StatusOr<std::shared_ptr<const Proto>> ParseMessage(grpc::ByteBuffer* bytes, size_t max_inputs = 1) {
  auto arena = std::make_shared<google::protobuf::Arena>();
  auto* message = google::protobuf::Arena::CreateMessage<Proto>(arena.get());
  if (absl::Status status = ParseInto(bytes, message, max_inputs); !status.ok()) return status;
  return std::shared_ptr<const Proto>(std::move(arena), message);
}

// One slice. The message must be under 2 GiB: the answer limit keeps it far below.
grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message);

}  // namespace tributary
