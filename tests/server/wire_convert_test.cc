#include "server/wire_convert.h"

#include <fstream>
#include <map>
#include <string>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/grpc_status.h"
#include "server/wire_message.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

template <typename Message>
absl::StatusOr<WireRequest> Convert(const Message& message) {
  return FromWire(std::make_shared<const Message>(message));
}

TEST_CASE("a text call keeps its inputs in order, as views into the message it keeps alive") {
  v1::EmbedTextRequest message;
  message.add_texts()->set_text("one");
  message.add_texts()->mutable_token_ids()->add_ids(7);
  message.add_texts()->set_text("");
  const auto call = Convert(message);
  REQUIRE(call.ok());
  CHECK(call->request.kind == RequestKind::kText);
  REQUIRE(call->request.inputs.size() == 3);
  CHECK(call->request.inputs[0].text->text == "one");
  REQUIRE(call->request.inputs[1].text->token_ids.has_value());
  CHECK(call->request.inputs[1].text->token_ids->front() == 7);
  CHECK(call->request.inputs[2].text->text.empty());
  CHECK(call->errors.empty());
  const auto* owner = static_cast<const v1::EmbedTextRequest*>(call->request.owner.get());
  CHECK(call->request.inputs[0].text->text.data() == owner->texts(0).text().data());
}

TEST_CASE("images come as encoded bytes or as raw pixels with their size") {
  v1::EmbedImageRequest message;
  message.add_images()->set_encoded("jpeg");
  v1::RawRgb* raw = message.add_images()->mutable_raw_rgb();
  raw->set_data("abcdef");
  raw->set_width(2);
  raw->set_height(1);
  const auto call = Convert(message);
  REQUIRE(call.ok());
  CHECK(call->request.kind == RequestKind::kImage);
  CHECK(call->request.inputs[0].image->encoded == "jpeg");
  REQUIRE(call->request.inputs[1].image->raw_rgb.has_value());
  CHECK(call->request.inputs[1].image->raw_rgb->bytes == "abcdef");
  CHECK(call->request.inputs[1].image->raw_rgb->width == 2);
  CHECK(call->request.inputs[1].image->raw_rgb->height == 1);
}

TEST_CASE("either part of a pair may be missing, but not both, and an input without content is its own error only") {
  v1::EmbedPairRequest message;
  message.add_pairs()->mutable_text()->set_text("t");
  message.add_pairs();
  message.add_pairs()->mutable_image()->set_encoded("i");
  message.add_pairs()->mutable_text();
  message.add_pairs()->mutable_image();
  const auto call = Convert(message);
  REQUIRE(call.ok());
  REQUIRE(call->request.inputs.size() == 5);
  CHECK(call->request.inputs[0].text.has_value());
  CHECK_FALSE(call->request.inputs[0].image.has_value());
  CHECK_FALSE(call->request.inputs[2].text.has_value());
  CHECK(call->request.inputs[2].image.has_value());
  REQUIRE(call->errors.size() == 3);
  CHECK(call->errors[0].index == 1);
  CHECK(call->errors[1].index == 3);
  CHECK(call->errors[2].index == 4);
  CHECK(call->errors[0].status.message() == "the pair has neither text nor image");
}

TEST_CASE("results come back in the order of the inputs, malformed ones with what was wrong with them") {
  EmbedResponse response{.model = "m", .model_revision = "r", .results = std::vector<EmbedResult>(4)};
  response.results[0].text = {1, 2};
  response.results[1].status = absl::InvalidArgumentError("empty");
  response.results[2].text = {3, 4};
  PutErrors({{1, absl::InvalidArgumentError("bad")}, {3, absl::InvalidArgumentError("worse")}}, &response);
  v1::EmbedResponse out;
  ToWire(response, Encoding::kFloat32, &out);
  REQUIRE(out.results_size() == 4);
  CHECK(out.results(0).embeddings().text().float32(0) == 1);
  CHECK(out.results(1).error().message() == "bad");
  CHECK(out.results(2).embeddings().text().float32(1) == 4);
  CHECK(out.results(3).error().code() == 3);
  CHECK(out.model() == "m");
  CHECK(out.model_revision() == "r");
}

TEST_CASE("options are read with the contract's defaults") {
  v1::EmbedTextRequest message;
  message.add_texts()->set_text("a");
  auto call = Convert(message);
  REQUIRE(call.ok());
  CHECK(call->request.options.truncation == Truncation::kEnd);
  CHECK(call->request.options.priority == Priority::kInteractive);
  CHECK_FALSE(call->request.options.normalise.has_value());
  CHECK(call->encoding == Encoding::kFloat32);
  CHECK(call->request.options.dimensions == 0);
  CHECK_FALSE(call->request.options.prompt_name.has_value());

  message.mutable_options()->set_model("other");
  message.mutable_options()->set_normalise(false);
  message.mutable_options()->set_truncation(v1::TRUNCATION_START);
  message.mutable_options()->set_encoding(v1::ENCODING_FLOAT16);
  message.mutable_options()->set_priority(v1::PRIORITY_BULK);
  message.mutable_options()->set_dimensions(64);
  message.mutable_options()->set_prompt_name("query");
  call = Convert(message);
  REQUIRE(call.ok());
  CHECK(call->request.options.model == "other");
  CHECK(call->request.options.normalise == false);
  CHECK(call->request.options.truncation == Truncation::kStart);
  CHECK(call->request.options.priority == Priority::kBulk);
  CHECK(call->encoding == Encoding::kFloat16);
  CHECK(call->request.options.dimensions == 64);
  CHECK(call->request.options.prompt_name == "query");

  message.mutable_options()->set_truncation(v1::TRUNCATION_NONE);
  CHECK(Convert(message)->request.options.truncation == Truncation::kNone);
  message.mutable_options()->set_encoding(v1::ENCODING_INT8);
  CHECK(Convert(message)->encoding == Encoding::kInt8);
  message.mutable_options()->set_encoding(v1::ENCODING_BINARY);
  CHECK(Convert(message)->encoding == Encoding::kBinary);
  message.mutable_options()->set_prompt_name("");  // no prompt, which is not the same as none named
  CHECK(Convert(message)->request.options.prompt_name == "");
}

TEST_CASE("an enum value the contract does not know is refused by name and value") {
  v1::EmbedTextRequest message;
  message.add_texts()->set_text("a");
  message.mutable_options()->set_truncation(static_cast<v1::Truncation>(9));
  CHECK(Convert(message).status().message() == "options.truncation is 9, known are 0 to 3");
  message.mutable_options()->set_truncation(v1::TRUNCATION_END);
  message.mutable_options()->set_encoding(static_cast<v1::Encoding>(-1));
  CHECK(Convert(message).status().message() == "options.encoding is -1, known are 0 to 4");
  message.mutable_options()->set_encoding(v1::ENCODING_FLOAT32);
  message.mutable_options()->set_priority(static_cast<v1::Priority>(3));
  CHECK(Convert(message).status().message() == "options.priority is 3, known are 0 to 2");
}

TEST_CASE("a call without inputs, and a stream input without content, are refused") {
  CHECK(Convert(v1::EmbedTextRequest()).status().message() == "texts is empty, at least 1 input is needed");
  CHECK(Convert(v1::EmbedStreamRequest()).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a result carries tokens, the truncated flag and times, saturating") {
  EmbedResult result;
  result.text = {1};
  result.token_count = 12;
  result.truncated = true;
  result.times.queue = std::chrono::microseconds(34);
  result.times.total = std::chrono::hours(5000);
  v1::EmbedResult out;
  ToWire(result, Encoding::kFloat32, &out);
  CHECK(out.token_count() == 12);
  CHECK(out.truncated());
  CHECK(out.times().queue_micros() == 34);
  CHECK(out.times().total_micros() == UINT32_MAX);
}

TEST_CASE("a model is described with its shorter sizes and prompts") {
  ModelInfo info;
  info.matryoshka_dimensions = {64, 128};
  info.prompt_names = {"document", "query"};
  info.default_prompt = "query";
  v1::Model model;
  ToWire(info, &model);
  CHECK(std::vector<uint32_t>(model.matryoshka_dimensions().begin(), model.matryoshka_dimensions().end()) ==
        info.matryoshka_dimensions);
  CHECK(std::vector<std::string>(model.prompt_names().begin(), model.prompt_names().end()) == info.prompt_names);
  CHECK(model.default_prompt_name() == "query");
}

TEST_CASE("each encoding has its own field, with the number of dimensions and, for int8, the scale") {
  EmbedResult result;
  result.text = {1, -2, 0.5F};
  auto packed = [&](Encoding encoding) {
    v1::EmbedResult out;
    ToWire(result, encoding, &out);
    CHECK(out.embeddings().text().dimensions() == 3);
    CHECK(out.embeddings().text().vector_count() == 0);
    return out.embeddings().text();
  };
  CHECK(packed(Encoding::kFloat32).float32_size() == 3);
  CHECK(packed(Encoding::kFloat16).float16().size() == 6);
  CHECK(packed(Encoding::kInt8).int8() == "\x40\x81\x20");
  CHECK(packed(Encoding::kInt8).scale() == 2.0F / 127);
  CHECK(packed(Encoding::kBinary).binary() == "\xA0");
}

TEST_CASE("a vector too large for float16 is that input's error, not an infinity") {
  EmbedResult result;
  result.text = {70000};
  v1::EmbedResult out;
  ToWire(result, Encoding::kFloat16, &out);
  CHECK(out.error().code() == 3);
}

TEST_CASE("no result is larger on the wire than the bound the answer limit is judged by") {
  EmbedResult full;
  full.text = full.image = full.fused = std::vector<float>(384, 0.1F);
  full.token_count = UINT32_MAX;
  full.truncated = true;
  const Duration forever = std::chrono::hours(5000);
  full.times = {forever, forever, forever, forever, forever, forever, forever};
  EmbedResult failed = full;
  failed.status = absl::InvalidArgumentError(std::string(10000, 'x'));
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kFloat16, Encoding::kInt8, Encoding::kBinary}) {
    EmbedResponse response{.model = "m", .model_revision = "r", .results = {full, failed}};
    v1::EmbedResponse out;
    ToWire(response, encoding, &out);
    CHECK(out.ByteSizeLong() <= 32 + 2 * MaxResultBytes(384, RequestKind::kPair, encoding));
    v1::EmbedResponse errors_only;
    response.results = {failed, failed};
    ToWire(response, encoding, &errors_only);
    CHECK(errors_only.ByteSizeLong() <= 32 + 2 * MaxResultBytes(1, RequestKind::kText, encoding));
  }
}

TEST_CASE("messages to clients are bounded and valid UTF-8, whatever they quote") {
  CHECK(BoundedMessage("gr\xC3\xBC\xC3\x9F dich") == "gr\xC3\xBC\xC3\x9F dich");
  CHECK(BoundedMessage("a\xFF"
                       "b\xC3") == "a?b?");
  CHECK(BoundedMessage("\xED\xA0\x80") == "???");  // a surrogate
  CHECK(BoundedMessage("\xC0\xAF") == "??");       // overlong
  CHECK(BoundedMessage(std::string(1000, 'x')).size() == kMaxMessageBytes);
  // A character is not cut in half at the limit.
  CHECK(BoundedMessage(std::string(kMaxMessageBytes - 1, 'x') + "\xC3\xBC").size() == kMaxMessageBytes - 1);
}

TEST_CASE("codes outside the contract become INTERNAL, the others keep their number") {
  CHECK(ToGrpcStatus(absl::OkStatus()).ok());
  CHECK(ToGrpcStatus(absl::UnknownError("x")).error_code() == grpc::StatusCode::INTERNAL);
  CHECK(ToGrpcStatus(absl::DataLossError("x")).error_code() == grpc::StatusCode::INTERNAL);
  CHECK(ToGrpcStatus(absl::ResourceExhaustedError("x")).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(ToGrpcStatus(absl::DeadlineExceededError("x")).error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK(ToGrpcStatus(absl::NotFoundError("x")).error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(ToGrpcStatus(absl::CancelledError("x")).error_code() == grpc::StatusCode::CANCELLED);
}

// How far resident memory rises while `work` runs, in bytes.
template <typename Work>
size_t MemoryRise(const Work& work) {
  auto read = [](const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(key, 0) == 0) return std::stoul(line.substr(key.size())) * 1024;
    }
    return 0UL;
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const size_t before = read("VmRSS:");
  work();
  const size_t peak = read("VmHWM:");
  return peak > before ? peak - before : 0;
}

TEST_CASE("a flood of tiny fields, wherever it stands, is refused with the limit's name and without building it") {
  constexpr size_t kFloodBytes = size_t{16} << 20;
  auto flood = [](const std::string& field) {
    std::string bytes;
    while (bytes.size() < kFloodBytes) bytes += field;
    return bytes;
  };
  const std::string alternating = flood({"\x0A\x00\x12\x00", 4});  // text, token_ids, text, ...
  std::string inside;
  {
    google::protobuf::io::StringOutputStream stream(&inside);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteTag(0x0A);
    out.WriteVarint32(static_cast<uint32_t>(alternating.size()));
    out.WriteString(alternating);
  }
  const std::map<std::string, std::string> floods = {{"empty inputs", flood({"\x0A\x00", 2})},
                                                     {"unknown numbers", flood({"\x78\x00", 2})},
                                                     {"unknown groups", flood("\x7B\x7C")},
                                                     {"groups for a known field", flood("\x0B\x0C")},
                                                     {"within one input", inside}};
  for (const auto& [name, bytes] : floods) {
    INFO(name);
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer buffer(&slice, 1);
    absl::Status status;
    const size_t rise =
        MemoryRise([&] { status = ParseMessage<v1::EmbedTextRequest>(&buffer, /*max_inputs=*/1024).status(); });
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(status.message() ==
          "the tributary.v1.EmbedTextRequest has more than 16400 fields, enough for the limit of 1024 inputs "
          "(admission.max_inputs_per_call)");
    CHECK(rise < (size_t{64} << 20));
  }
}

TEST_CASE("token ids that stand one by one instead of packed are read, however many") {
  constexpr size_t kIds = 50000;
  v1::EmbedTextRequest message;
  std::string ids;
  for (size_t i = 0; i < kIds; ++i) ids += "\x08\x07";
  message.add_texts()->mutable_token_ids();
  auto* unknown = message.mutable_texts(0)->GetReflection()->MutableUnknownFields(message.mutable_texts(0));
  unknown->AddLengthDelimited(2, ids);
  const grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer buffer(&slice, 1);
  const auto parsed = ParseMessage<v1::EmbedTextRequest>(&buffer, /*max_inputs=*/1);
  REQUIRE(parsed.ok());
  CHECK((*parsed)->texts(0).token_ids().ids_size() == kIds);
}

TEST_CASE("a message survives serialising and parsing over many slices") {
  v1::EmbedTextRequest message;
  message.add_texts()->set_text(std::string(5000, 'a'));
  const std::string bytes = message.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += 100) slices.emplace_back(bytes.substr(i, 100));
  grpc::ByteBuffer buffer(slices.data(), slices.size());
  const auto parsed = ParseMessage<v1::EmbedTextRequest>(&buffer);
  REQUIRE(parsed.ok());
  CHECK((*parsed)->texts(0).text() == message.texts(0).text());
  CHECK(buffer.Length() == 0);
}

TEST_CASE("a model's logit scale and bias are told, 0 where it has none") {
  ModelInfo info;
  info.logit_scale = 100.25;
  info.logit_bias = -12.5;
  v1::Model out;
  ToWire(info, &out);
  CHECK(out.logit_scale() == 100.25);
  CHECK(out.logit_bias() == -12.5);
  ToWire(ModelInfo{}, &out);
  CHECK(out.logit_scale() == 0);
  CHECK(out.logit_bias() == 0);
}

}  // namespace
}  // namespace tributary
