// What a client gets back of a vector in each encoding, over a real connection: within the error the contract states.
#include <cmath>
#include <random>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_engine.h"
#include "tests/support/test_server.h"

namespace tributary {
namespace {

constexpr size_t kDimensions = 387;  // not a multiple of 8

// As the contract defines the encodings, written down a second time. Binary: 1 and -1.
std::vector<double> Decode(const v1::Embedding& wire) {
  std::vector<double> numbers(wire.float32().begin(), wire.float32().end());
  const std::string& half = wire.float16();
  for (size_t i = 0; i + 1 < half.size(); i += 2) {
    const uint32_t bits = static_cast<uint8_t>(half[i]) | (uint32_t{static_cast<uint8_t>(half[i + 1])} << 8);
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const int fraction = static_cast<int>(bits & 1023);
    REQUIRE(exponent < 31);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    numbers.push_back((bits >> 15) != 0 ? -magnitude : magnitude);
  }
  for (const char byte : wire.int8()) numbers.push_back(static_cast<int8_t>(byte) * wire.scale());
  for (size_t i = 0; i < 8 * wire.binary().size(); ++i) {
    const bool set = ((static_cast<uint8_t>(wire.binary()[i / 8]) >> (7 - i % 8)) & 1) != 0;
    if (i < wire.dimensions()) {
      numbers.push_back(set ? 1 : -1);
    } else {
      REQUIRE_FALSE(set);
    }
  }
  return numbers;
}

// Length 1, with numbers down to where float16 has fixed steps, and a zero.
std::vector<float> Vector(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> vector(kDimensions);
  double sum = 0;
  for (float& number : vector) {
    number = normal(random) * std::pow(10.0F, normal(random));
    sum += static_cast<double>(number) * number;
  }
  for (float& number : vector) number = static_cast<float>(number / std::sqrt(sum));
  vector[5] = 0;
  return vector;
}

v1::Embedding Ask(FakeEngine& engine, const TestServer& server, const std::vector<float>& vector,
                  v1::Encoding encoding) {
  engine.EmbedAs(vector);
  v1::EmbedTextRequest request = TextRequest({"a"});
  request.mutable_options()->set_encoding(encoding);
  const auto stub = server.Stub();
  const Reply reply = EmbedText(*stub, request);
  REQUIRE(reply.status.ok());
  REQUIRE(reply.response.results(0).has_embeddings());
  return reply.response.results(0).embeddings().text();
}

TEST_CASE("float32, float16, int8 and binary come back within the error the contract states") {
  FakeEngine engine(kDimensions);
  const TestServer server(&engine);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> vector = Vector(seed);
    const auto decoded = [&](v1::Encoding encoding) {
      const v1::Embedding wire = Ask(engine, server, vector, encoding);
      CHECK(wire.dimensions() == kDimensions);
      std::vector<double> numbers = Decode(wire);
      REQUIRE(numbers.size() == kDimensions);
      return numbers;
    };
    const std::vector<double> exact = decoded(v1::ENCODING_FLOAT32);
    const std::vector<double> half = decoded(v1::ENCODING_FLOAT16);
    const std::vector<double> bytes = decoded(v1::ENCODING_INT8);
    const std::vector<double> signs = decoded(v1::ENCODING_BINARY);
    const double scale = Ask(engine, server, vector, v1::ENCODING_INT8).scale();
    CHECK(scale > 0);
    for (size_t i = 0; i < kDimensions; ++i) {
      const double v = vector[i];
      REQUIRE(exact[i] == v);
      REQUIRE(std::abs(half[i] - v) <= std::max(std::abs(v) / 2048, std::ldexp(1, -25)));
      REQUIRE(std::abs(bytes[i] - v) <= scale / 2 * 1.0001);
      REQUIRE(signs[i] == (v > 0 ? 1 : -1));
    }
  }
}

TEST_CASE("a stream's answers are encoded as each input asks") {
  FakeEngine engine(kDimensions);
  const TestServer server(&engine);
  const std::vector<float> vector = Vector(1);
  engine.EmbedAs(vector);
  const auto stub = server.Stub();
  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  const auto stream = stub->EmbedStream(&context);
  for (const v1::Encoding encoding : {v1::ENCODING_BINARY, v1::ENCODING_INT8}) {
    v1::EmbedStreamRequest request = StreamText(static_cast<uint64_t>(encoding), "a");
    request.mutable_options()->set_encoding(encoding);
    REQUIRE(stream->Write(request));
  }
  stream->WritesDone();
  v1::EmbedStreamResponse response;
  size_t answers = 0;
  while (stream->Read(&response)) {
    ++answers;
    const v1::Embedding& text = response.result().embeddings().text();
    CHECK(text.binary().size() == (response.id() == v1::ENCODING_BINARY ? (kDimensions + 7) / 8 : 0));
    CHECK(text.int8().size() == (response.id() == v1::ENCODING_INT8 ? kDimensions : 0));
  }
  CHECK(answers == 2);
  CHECK(stream->Finish().ok());
}

TEST_CASE("the answer's limit is judged by encoding and dimensions: smaller vectors, more inputs in a call") {
  FakeEngine engine(1000);
  const TestServer server(&engine, {.max_response_bytes = 65536});
  const auto stub = server.Stub();
  v1::EmbedTextRequest request = TextRequest(std::vector<std::string>(50, "a"));
  const auto code = [&] { return EmbedText(*stub, request).status.error_code(); };
  CHECK(code() == grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_options()->set_encoding(v1::ENCODING_INT8);
  CHECK(code() == grpc::StatusCode::OK);
  request = TextRequest(std::vector<std::string>(100, "a"));
  request.mutable_options()->set_encoding(v1::ENCODING_INT8);
  CHECK(code() == grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_options()->set_encoding(v1::ENCODING_BINARY);
  CHECK(code() == grpc::StatusCode::OK);
  request.mutable_options()->set_encoding(v1::ENCODING_FLOAT32);
  request.mutable_options()->set_dimensions(2);
  CHECK(code() == grpc::StatusCode::OK);
}

TEST_CASE("dimensions and prompt name reach the engine, and ListModels says what they may be") {
  FakeEngine engine;
  const TestServer server(&engine);
  const auto stub = server.Stub();
  v1::EmbedTextRequest request = TextRequest({"a"});
  REQUIRE(EmbedText(*stub, request).status.ok());
  CHECK(engine.last_options().dimensions == 0);
  CHECK_FALSE(engine.last_options().prompt_name.has_value());
  request.mutable_options()->set_dimensions(2);
  request.mutable_options()->set_prompt_name("");
  REQUIRE(EmbedText(*stub, request).status.ok());
  CHECK(engine.last_options().dimensions == 2);
  CHECK(engine.last_options().prompt_name == "");

  grpc::ClientContext context;
  context.set_deadline(TestDeadline());
  v1::ListModelsResponse models;
  REQUIRE(stub->ListModels(&context, {}, &models).ok());
  REQUIRE(models.models_size() == 2);
  CHECK(models.models(0).matryoshka_dimensions(0) == 2);
  CHECK(models.models(0).prompt_names_size() == 2);
  CHECK(models.models(0).default_prompt_name() == "document");
}

}  // namespace
}  // namespace tributary
