#include "server/grpc_status.h"

#include <cstdint>

namespace tributary {
namespace {

// Bytes of the valid UTF-8 sequence at the start of `text` (RFC 3629: no overlong forms, no surrogates); 0: none.
size_t SequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  auto continuation = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continuation(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : 0xBF;
    return continuation(1, low, high) && continuation(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;
    return continuation(1, low, high) && continuation(2) && continuation(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string BoundedMessage(std::string_view message) {
  std::string out;
  while (!message.empty()) {
    const size_t length = SequenceLength(message);
    const std::string_view next = length == 0 ? std::string_view("?") : message.substr(0, length);
    if (out.size() + next.size() > kMaxMessageBytes) break;
    out += next;
    message.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

absl::StatusCode ContractCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kInternal:
      return code;
    default:
      return absl::StatusCode::kInternal;
  }
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // Both enumerations are google.rpc.Code.
  const auto code = static_cast<grpc::StatusCode>(ContractCode(status.code()));
  return grpc::Status(code, BoundedMessage(std::string_view(status.message().data(), status.message().size())));
}

void ToRpcStatus(const absl::Status& status, google::rpc::Status* out) {
  out->set_code(static_cast<int32_t>(ContractCode(status.code())));
  out->set_message(BoundedMessage(std::string_view(status.message().data(), status.message().size())));
}

}  // namespace tributary
