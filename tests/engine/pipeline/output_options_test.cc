// What a request asks of its vectors and prompts: shorter vectors, prompts by name, over the fake model.
#include <cmath>

#include "tests/engine/pipeline/pipeline_test_support.h"

namespace tributary {
namespace {

FakeModelOptions Model() {
  FakeModelOptions model;
  model.info.matryoshka_dimensions = {2, 4};
  model.info.default_prompt = "document";
  model.prompts = {{"document", "passage: "}, {"query", "search: "}, {"bare", ""}};
  return model;
}

std::vector<float> First(std::vector<float> vector, size_t dimensions, bool normalise) {
  vector.resize(dimensions);
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  if (normalise) {
    for (float& x : vector) x = static_cast<float>(x / std::sqrt(sum));
  }
  return vector;
}

// Of the fake model, all its numbers.
std::vector<float> TextVector(std::string_view text) { return FakeTextVector(text, Model().info.dimensions); }

absl::Status Refusal(EngineFixture& f, const EmbedOptions& options) {
  EmbedRequest request = TextRequest({"a"});
  request.options = options;
  Answer unused;
  return f.engine->Submit(std::move(request), unused.Callback());
}

EmbedResponse Embed(EngineFixture& f, EmbedRequest request, const EmbedOptions& options) {
  request.options = options;
  return f.Embed(std::move(request));
}

TEST_CASE("A shorter vector is the first numbers of the full one, with length 1 again where it is normalised") {
  EngineFixture f({}, Model());
  const std::vector<float> full = TextVector("passage: cat");
  for (const uint32_t dimensions : {2U, 4U, 8U, 0U}) {
    const size_t kept = dimensions == 0 ? 8 : dimensions;
    for (const bool normalise : {true, false}) {
      EmbedOptions options;
      options.dimensions = dimensions;
      options.normalise = normalise;
      const EmbedResponse response = Embed(f, TextRequest({"cat"}), options);
      CheckNear(response.results[0].text, First(full, kept, normalise));
      CheckNear(Embed(f, ImageRequest({"png"}), options).results[0].image,
                First(FakeImageVector("png", Model().info), kept, normalise));
    }
  }
}

TEST_CASE("A pair is fused at full size, then its parts and the fused vector are cut") {
  EngineFixture f({}, Model());
  const auto pair = [] { return MakeRequest(RequestKind::kPair, {{"cat", "png"}, {"dog", std::nullopt}}); };
  for (const bool normalise : {true, false}) {
    EmbedOptions options;
    options.normalise = normalise;
    const EmbedResponse full = Embed(f, pair(), options);
    options.dimensions = 4;
    const EmbedResponse cut = Embed(f, pair(), options);
    for (size_t i = 0; i < 2; ++i) {
      REQUIRE(cut.results[i].status.ok());
      CheckNear(cut.results[i].text, First(full.results[i].text, 4, normalise));
      CheckNear(cut.results[i].fused, First(full.results[i].fused, 4, normalise));
    }
    CheckNear(cut.results[0].image, First(full.results[0].image, 4, normalise));
    CHECK(cut.results[1].image.empty());
  }
}

TEST_CASE("A size the model is not trained for is refused with the sizes it has") {
  EngineFixture f({}, Model());
  EmbedOptions options;
  options.dimensions = 3;
  const absl::Status status = Refusal(f, options);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(status.message() == "dimensions is 3, model 'fake' gives 2, 4 or 8");
  options.dimensions = 9;
  CHECK(Refusal(f, options).code() == absl::StatusCode::kInvalidArgument);

  EngineFixture plain;
  options.dimensions = 4;
  CHECK(Refusal(plain, options).message() == "dimensions is 4, model 'fake' gives 8 only");
  options.dimensions = 8;
  CHECK(Embed(plain, TextRequest({"a"}), options).results[0].text.size() == 8);
}

TEST_CASE("A text runs behind the default prompt, the one named, or none") {
  EngineFixture f({}, Model());
  EmbedOptions options;
  options.normalise = false;
  const auto embed = [&](std::optional<std::string> name) {
    options.prompt_name = std::move(name);
    return Embed(f, TextRequest({"cat"}), options).results[0];
  };
  CHECK(embed(std::nullopt).text == TextVector("passage: cat"));
  CHECK(embed("query").text == TextVector("search: cat"));
  CHECK(embed("query").token_count == 11);
  CHECK(embed("bare").text == TextVector("cat"));
  CHECK(embed("").text == TextVector("cat"));
  CHECK(f.engine->Models()[0].prompt_names == std::vector<std::string>{"bare", "document", "query"});
}

TEST_CASE("A prompt the model does not have is refused with the names it has") {
  EngineFixture f({}, Model());
  EmbedOptions options;
  options.prompt_name = "quary";
  CHECK(Refusal(f, options).code() == absl::StatusCode::kInvalidArgument);
  CHECK(Refusal(f, options).message() == "prompts of model 'fake' are bare, document, query; prompt_name is 'quary'");
  EngineFixture plain;
  CHECK(Refusal(plain, options).message() == "model 'fake' has no prompts, prompt_name is 'quary'");
  options.prompt_name = "";
  CHECK(Embed(plain, TextRequest({"a"}), options).results[0].status.ok());
}

TEST_CASE("Ready token ids take no prompt: the default one is left out, and a name is an error of that input only") {
  EngineFixture f({}, Model());
  auto request = [] {
    EmbedRequest made = TextRequest({"cat", "cat"});
    static constexpr int32_t kIds[] = {'c', 'a', 't'};
    made.inputs[1].text->token_ids = kIds;
    return made;
  };
  EmbedOptions options;
  options.normalise = false;
  EmbedResponse response = Embed(f, request(), options);
  CHECK(response.results[0].text == TextVector("passage: cat"));
  CHECK(response.results[1].text == TextVector("cat"));
  options.prompt_name = "query";
  response = Embed(f, request(), options);
  CHECK(response.results[0].text == TextVector("search: cat"));
  CHECK(response.results[1].status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(response.results[1].text.empty());

  EmbedRequest pair = MakeRequest(RequestKind::kPair, {{"cat", "png"}});
  static constexpr int32_t kIds[] = {'c'};
  pair.inputs[0].text->token_ids = kIds;
  response = Embed(f, std::move(pair), options);
  CHECK(response.results[0].status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(response.results[0].image.empty());
  REQUIRE(f.engine->WaitUntilIdle(std::chrono::hours(1)));
  CHECK(f.engine->Snapshot().items_in_flight == 0);
}

TEST_CASE("The limit of a text's bytes leaves its prompt out; the limit of tokens does not") {
  EngineOptions options;
  options.limits.max_text_bytes = 5;
  EngineFixture f(options, Model());
  EmbedRequest request = TextRequest({"12345", "123456"});
  request.options.prompt_name = "query";
  const EmbedResponse response = f.Embed(std::move(request));
  CHECK(response.results[0].status.ok());
  CHECK(response.results[1].status.code() == absl::StatusCode::kInvalidArgument);

  FakeModelOptions model = Model();
  model.info.max_tokens = 10;
  EngineFixture short_texts({}, model);
  EmbedRequest truncated = TextRequest({"cats"});
  truncated.options.normalise = false;
  const EmbedResponse answer = short_texts.Embed(std::move(truncated));
  CHECK(answer.results[0].truncated);
  CHECK(answer.results[0].text == TextVector("passage: c"));
}

}  // namespace
}  // namespace tributary
