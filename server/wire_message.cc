#include "server/wire_message.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace tributary {
namespace {

using google::protobuf::internal::WireFormatLite;

// A pair of a text and a raw image has 8; the rest is for what newer clients add. The options are one input more.
constexpr size_t kFieldsPerInput = 16;

// Whether the message has at most `*left` fields, those of messages inside it included; fewer are left afterwards.
// Bytes that are no message count as far as they can be read: the parser refuses them.
bool FieldsWithin(google::protobuf::io::CodedInputStream* in, const google::protobuf::Descriptor* type, size_t* left) {
  while (const uint32_t tag = in->ReadTag()) {
    const auto wire_type = WireFormatLite::GetTagWireType(tag);
    const bool group =
        wire_type == WireFormatLite::WIRETYPE_START_GROUP || wire_type == WireFormatLite::WIRETYPE_END_GROUP;
    const auto* field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    // Numbers that may be packed may also stand one by one: they take no more memory than bytes.
    const bool number = field != nullptr && field->is_packable() && !group;
    if (!number && (*left)-- == 0) return false;
    if (group) continue;  // its fields are counted as if they stood here
    if (field != nullptr && field->message_type() != nullptr &&
        wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t bytes = 0;
      if (!in->ReadVarint32(&bytes)) return true;
      const auto outer = in->PushLimit(static_cast<int>(bytes));
      if (!FieldsWithin(in, field->message_type(), left)) return false;
      in->PopLimit(outer);
    } else if (!WireFormatLite::SkipField(in, tag)) {
      return true;
    }
  }
  return true;
}

}  // namespace

absl::Status ParseInto(grpc::ByteBuffer* bytes, google::protobuf::Message* message, size_t max_inputs) {
  const std::string& name = message->GetDescriptor()->full_name();
  const size_t max_fields = kFieldsPerInput * (max_inputs + 1);
  const size_t size = bytes->Length();
  bool parsed = false;
  bool within = true;
  {
    size_t left = max_fields;
    grpc::ProtoBufferReader reader(bytes);
    google::protobuf::io::CodedInputStream in(&reader);
    within = !reader.status().ok() || FieldsWithin(&in, message->GetDescriptor(), &left);
  }
  if (within) {
    grpc::ProtoBufferReader reader(bytes);
    parsed = reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
  }
  bytes->Clear();
  if (parsed) return absl::OkStatus();
  if (!within) {
    return absl::InvalidArgumentError(absl::StrCat("the ", name, " has more than ", max_fields,
                                                   " fields, enough for the limit of ", max_inputs,
                                                   " inputs (admission.max_inputs_per_call)"));
  }
  return absl::InvalidArgumentError(absl::StrCat("the ", size, " bytes of the message are no valid ", name,
                                                 ": malformed protobuf, or a string that is not UTF-8"));
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace tributary
