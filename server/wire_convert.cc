#include "server/wire_convert.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/float16.h"
#include "server/grpc_status.h"

namespace tributary {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors are packed as they lie in memory");

absl::Status UnknownEnum(const char* field, int value, int last) {
  return absl::InvalidArgumentError(absl::StrCat("options.", field, " is ", value, ", known are 0 to ", last));
}

absl::Status ReadOptions(const v1::EmbedOptions& wire, WireRequest* out) {
  EmbedOptions& options = out->request.options;
  options.model = wire.model();
  if (wire.has_normalise()) options.normalise = wire.normalise();
  options.dimensions = wire.dimensions();
  if (wire.has_prompt_name()) options.prompt_name = wire.prompt_name();
  switch (wire.truncation()) {
    case v1::TRUNCATION_UNSPECIFIED:
    case v1::TRUNCATION_END:
      options.truncation = Truncation::kEnd;
      break;
    case v1::TRUNCATION_START:
      options.truncation = Truncation::kStart;
      break;
    case v1::TRUNCATION_NONE:
      options.truncation = Truncation::kNone;
      break;
    default:
      return UnknownEnum("truncation", wire.truncation(), v1::Truncation_MAX);
  }
  switch (wire.encoding()) {
    case v1::ENCODING_UNSPECIFIED:
    case v1::ENCODING_FLOAT32:
      out->encoding = Encoding::kFloat32;
      break;
    case v1::ENCODING_FLOAT16:
      out->encoding = Encoding::kFloat16;
      break;
    case v1::ENCODING_INT8:
      out->encoding = Encoding::kInt8;
      break;
    case v1::ENCODING_BINARY:
      out->encoding = Encoding::kBinary;
      break;
    default:
      return UnknownEnum("encoding", wire.encoding(), v1::Encoding_MAX);
  }
  switch (wire.priority()) {
    case v1::PRIORITY_UNSPECIFIED:
    case v1::PRIORITY_INTERACTIVE:
      options.priority = Priority::kInteractive;
      break;
    case v1::PRIORITY_BULK:
      options.priority = Priority::kBulk;
      break;
    default:
      return UnknownEnum("priority", wire.priority(), v1::Priority_MAX);
  }
  return absl::OkStatus();
}

absl::StatusOr<TextInput> ReadText(const v1::TextInput& wire) {
  switch (wire.input_case()) {
    case v1::TextInput::kText:
      return TextInput{.text = wire.text(), .token_ids = std::nullopt};
    case v1::TextInput::kTokenIds:
      return TextInput{.text = {},
                       .token_ids = std::span<const int32_t>(wire.token_ids().ids().data(),
                                                             static_cast<size_t>(wire.token_ids().ids_size()))};
    case v1::TextInput::INPUT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the text input has neither text nor token_ids");
}

absl::StatusOr<ImageInput> ReadImage(const v1::ImageInput& wire) {
  switch (wire.input_case()) {
    case v1::ImageInput::kEncoded:
      return ImageInput{.encoded = wire.encoded(), .raw_rgb = std::nullopt};
    case v1::ImageInput::kRawRgb:
      return ImageInput{
          .encoded = {},
          .raw_rgb = ImageInput::RawRgb{
              .bytes = wire.raw_rgb().data(), .width = wire.raw_rgb().width(), .height = wire.raw_rgb().height()}};
    case v1::ImageInput::INPUT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the image input has neither encoded nor raw_rgb");
}

absl::StatusOr<EmbedInput> ReadInput(const v1::TextInput& wire) {
  absl::StatusOr<TextInput> text = ReadText(wire);
  if (!text.ok()) return text.status();
  return EmbedInput{.text = *text, .image = std::nullopt};
}

absl::StatusOr<EmbedInput> ReadInput(const v1::ImageInput& wire) {
  absl::StatusOr<ImageInput> image = ReadImage(wire);
  if (!image.ok()) return image.status();
  return EmbedInput{.text = std::nullopt, .image = *image};
}

absl::StatusOr<EmbedInput> ReadInput(const v1::PairInput& wire) {
  if (!wire.has_text() && !wire.has_image()) {
    return absl::InvalidArgumentError("the pair has neither text nor image");
  }
  EmbedInput input;
  if (wire.has_text()) {
    absl::StatusOr<TextInput> text = ReadText(wire.text());
    if (!text.ok()) return text.status();
    input.text = *text;
  }
  if (wire.has_image()) {
    absl::StatusOr<ImageInput> image = ReadImage(wire.image());
    if (!image.ok()) return image.status();
    input.image = *image;
  }
  return input;
}

template <typename WireInput>
void AddInput(const WireInput& wire, size_t index, WireRequest* out) {
  absl::StatusOr<EmbedInput> input = ReadInput(wire);
  out->request.inputs.push_back(input.ok() ? *input : EmbedInput{});
  if (!input.ok()) out->errors.push_back({.index = index, .status = input.status()});
}

template <typename Message, typename Inputs>
absl::StatusOr<WireRequest> ReadCall(std::shared_ptr<const Message> message, const Inputs& inputs, RequestKind kind,
                                     const char* field) {
  if (inputs.empty()) return absl::InvalidArgumentError(absl::StrCat(field, " is empty, at least 1 input is needed"));
  WireRequest out;
  if (absl::Status status = ReadOptions(message->options(), &out); !status.ok()) return status;
  out.request.kind = kind;
  out.request.inputs.reserve(static_cast<size_t>(inputs.size()));
  for (int i = 0; i < inputs.size(); ++i) AddInput(inputs[i], static_cast<size_t>(i), &out);
  out.request.owner = std::move(message);
  return out;
}

uint32_t Micros(Duration d) {
  const int64_t micros = std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(micros, 0, std::numeric_limits<uint32_t>::max()));
}

void ToWire(const StageTimes& times, v1::StageTimes* out) {
  out->set_prepare_wait_micros(Micros(times.prepare_wait));
  out->set_prepare_micros(Micros(times.prepare));
  out->set_queue_micros(Micros(times.queue));
  out->set_lane_micros(Micros(times.lane));
  out->set_compute_micros(Micros(times.compute));
  out->set_fusion_micros(Micros(times.fusion));
  out->set_total_micros(Micros(times.total));
}

// False: a number does not fit binary16.
bool PackVector(const std::vector<float>& values, Encoding encoding, v1::Embedding* out) {
  out->set_dimensions(static_cast<uint32_t>(values.size()));
  switch (encoding) {
    case Encoding::kFloat32:
      out->mutable_float32()->Add(values.begin(), values.end());
      return true;
    case Encoding::kFloat16:
      return PackFloat16(values, out->mutable_float16());
    case Encoding::kInt8:
      out->set_scale(PackInt8(values, out->mutable_int8()));
      return true;
    case Encoding::kBinary:
      PackBinary(values, out->mutable_binary());
      return true;
  }
  return true;
}

}  // namespace

absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedTextRequest> message) {
  const auto& inputs = message->texts();
  return ReadCall(std::move(message), inputs, RequestKind::kText, "texts");
}

absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedImageRequest> message) {
  const auto& inputs = message->images();
  return ReadCall(std::move(message), inputs, RequestKind::kImage, "images");
}

absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedPairRequest> message) {
  const auto& inputs = message->pairs();
  return ReadCall(std::move(message), inputs, RequestKind::kPair, "pairs");
}

absl::StatusOr<WireRequest> FromWire(std::shared_ptr<const v1::EmbedStreamRequest> message) {
  WireRequest out;
  if (absl::Status status = ReadOptions(message->options(), &out); !status.ok()) return status;
  switch (message->input_case()) {
    case v1::EmbedStreamRequest::kText:
      out.request.kind = RequestKind::kText;
      AddInput(message->text(), 0, &out);
      break;
    case v1::EmbedStreamRequest::kImage:
      out.request.kind = RequestKind::kImage;
      AddInput(message->image(), 0, &out);
      break;
    case v1::EmbedStreamRequest::kPair:
      out.request.kind = RequestKind::kPair;
      AddInput(message->pair(), 0, &out);
      break;
    case v1::EmbedStreamRequest::INPUT_NOT_SET:
      return absl::InvalidArgumentError("the stream's input is none of text, image and pair");
  }
  out.request.owner = std::move(message);
  return out;
}

void PutErrors(const std::vector<InputError>& errors, EmbedResponse* response) {
  for (const InputError& error : errors) response->results[error.index].status = error.status;
}

size_t MaxResultBytes(size_t dimensions, RequestKind kind, Encoding encoding) {
  // Upper bounds by the wire format: a vector has three nested headers of at most 6 bytes, 5 of the scale and 6 of the
  // dimensions; a result its own two headers, 44 bytes of stage times, 6 of tokens and 2 of the flag. An error instead
  // of vectors has its bounded message and a code.
  constexpr size_t kVectorHeaders = 29;
  constexpr size_t kResultHeaders = 64;
  const size_t vectors = kind == RequestKind::kPair ? 3 : 1;
  const size_t embeddings = vectors * (PackedBytes(encoding, dimensions) + kVectorHeaders);
  return kResultHeaders + std::max(embeddings, kMaxMessageBytes + kVectorHeaders);
}

void ToWire(const EmbedResult& result, Encoding encoding, v1::EmbedResult* out) {
  out->set_token_count(result.token_count);
  out->set_truncated(result.truncated);
  ToWire(result.times, out->mutable_times());
  if (!result.status.ok()) {
    ToRpcStatus(result.status, out->mutable_error());
    return;
  }
  v1::Embeddings* embeddings = out->mutable_embeddings();
  bool fits = true;
  if (!result.text.empty()) fits &= PackVector(result.text, encoding, embeddings->mutable_text());
  if (!result.image.empty()) fits &= PackVector(result.image, encoding, embeddings->mutable_image());
  if (!result.fused.empty()) fits &= PackVector(result.fused, encoding, embeddings->mutable_fused());
  if (!fits) {
    ToRpcStatus(absl::InvalidArgumentError("the vector has numbers over 65504, the largest float16: ask for float32 or "
                                           "normalised vectors"),
                out->mutable_error());
  }
}

void ToWire(const EmbedResponse& response, Encoding encoding, v1::EmbedResponse* out) {
  out->set_model(response.model);
  out->set_model_revision(response.model_revision);
  out->mutable_results()->Reserve(static_cast<int>(response.results.size()));
  for (const EmbedResult& result : response.results) ToWire(result, encoding, out->add_results());
}

void ToWire(const ModelInfo& info, v1::Model* out) {
  out->set_name(info.name);
  out->set_revision(info.revision);
  out->set_is_default(info.is_default);
  out->set_serves_text(info.text);
  out->set_serves_image(info.image);
  out->set_serves_pair(info.pair);
  out->set_dimensions(info.dimensions);
  out->set_max_tokens(info.max_tokens);
  out->set_vocabulary_size(info.vocabulary_size);
  out->set_image_width(info.image_width);
  out->set_image_height(info.image_height);
  out->set_normalised_by_default(info.normalised_by_default);
  out->set_fusion(info.fusion);
  out->set_compute_type(info.compute_type);
  out->set_image_compute_type(info.image_compute_type);
  out->set_parameter_count(info.parameter_count);
  out->set_parameter_bytes(info.parameter_bytes);
  out->mutable_matryoshka_dimensions()->Add(info.matryoshka_dimensions.begin(), info.matryoshka_dimensions.end());
  for (const std::string& name : info.prompt_names) out->add_prompt_names(name);
  out->set_default_prompt_name(info.default_prompt);
  out->set_logit_scale(info.logit_scale);
  out->set_logit_bias(info.logit_bias);
}

}  // namespace tributary
