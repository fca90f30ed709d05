// Folders of models with a text and an image tower, through the whole engine, against the reference from start to end:
// see tests/golden/generate_shared_spaces.py.
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/libtorch/engine_factory.h"
#include "tests/engine/libtorch/family_goldens.h"
#include "tests/engine/libtorch/run_batch.h"
#include "tests/engine/prepare/image/golden_image.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

struct SharedGolden {
  std::vector<std::string> texts;
  std::vector<std::string> pictures;  // encoded
  std::vector<std::vector<float>> text_vectors;
  std::vector<std::vector<float>> image_vectors;
  double logit_scale = 0;
  double logit_bias = 0;
};

std::vector<std::vector<float>> ReadVectors(const std::filesystem::path& path, size_t count) {
  const std::vector<float> all = ReadFloats(path);
  const size_t size = all.size() / count;
  std::vector<std::vector<float>> vectors;
  for (size_t i = 0; i < count; ++i) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * size);
    vectors.emplace_back(first, first + static_cast<std::ptrdiff_t>(size));
  }
  return vectors;
}

SharedGolden ReadShared(const std::string& name) {
  const auto folder = FamilyFolder(name);
  const auto document = nlohmann::json::parse(ReadFile(folder / "shared.json"));
  SharedGolden golden;
  golden.texts = document.at("texts").get<std::vector<std::string>>();
  for (const auto& picture : document.at("pictures")) golden.pictures.push_back(ReadGolden(picture));
  golden.text_vectors = ReadVectors(folder / "texts.f32", golden.texts.size());
  golden.image_vectors = ReadVectors(folder / "images.f32", golden.pictures.size());
  golden.logit_scale = document.at("logit_scale");
  golden.logit_bias = document.at("logit_bias");
  return golden;
}

EngineOptions OptionsOf(const ModelOptions& model) {
  EngineOptions options;
  options.lanes.device = "cpu";
  options.lanes.count = 1;
  options.prepare.threads = 1;
  options.models = {model};
  return options;
}

ModelOptions Fp32() {
  ModelOptions model;
  model.name = "m";
  model.text.dtype = model.image.dtype = "fp32";
  return model;
}

ModelOptions WholeFolder(const std::string& folder) {
  ModelOptions model = Fp32();
  model.folder = folder;
  return model;
}

absl::StatusOr<std::unique_ptr<Engine>> Start(const ModelOptions& model) {
  static SteadyClock clock;
  static Observer observer;
  return CreateLibtorchEngine(OptionsOf(model), &clock, &observer);
}

std::string ErrorOf(const ModelOptions& model) { return std::string(Start(model).status().message()); }

std::vector<EmbedResult> Call(Engine& engine, EmbedRequest request) {
  std::promise<EmbedResponse> done;
  auto answer = done.get_future();
  const auto status = engine.Submit(std::move(request), [&](EmbedResponse r) { done.set_value(std::move(r)); });
  CAPTURE(std::string(status.message()));
  REQUIRE(status.ok());
  std::vector<EmbedResult> results = answer.get().results;
  for (const EmbedResult& result : results) {
    CAPTURE(std::string(result.status.message()));
    REQUIRE(result.status.ok());
  }
  return results;
}

EmbedInput TextOf(std::string_view text) { return {.text = TextInput{.text = text, .token_ids = {}}, .image = {}}; }
EmbedInput ImageOf(std::string_view encoded) {
  return {.text = {}, .image = ImageInput{.encoded = encoded, .raw_rgb = {}}};
}

std::vector<EmbedResult> Texts(Engine& engine, const std::vector<std::string>& texts) {
  EmbedRequest request;
  for (const std::string& text : texts) request.inputs.push_back(TextOf(text));
  return Call(engine, std::move(request));
}

std::vector<EmbedResult> Images(Engine& engine, const std::vector<std::string>& pictures) {
  EmbedRequest request;
  request.kind = RequestKind::kImage;
  for (const std::string& picture : pictures) request.inputs.push_back(ImageOf(picture));
  return Call(engine, std::move(request));
}

TEST_CASE("A folder of two towers gives texts and images the reference's vectors, and pairs at once") {
  const std::string name = GENERATE("clip", "siglip", "siglip-2");
  CAPTURE(name);
  const SharedGolden golden = ReadShared(name);
  const auto engine = Start(WholeFolder(FamilyFolder(name)));
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());
  const ModelInfo info = (*engine)->Models()[0];
  CHECK((info.text && info.image && info.pair));
  CHECK(info.dimensions == golden.text_vectors[0].size());
  CHECK(info.image_width == 32);
  CHECK(info.logit_scale == Approx(golden.logit_scale).epsilon(1e-6));
  CHECK(info.logit_bias == Approx(golden.logit_bias).epsilon(1e-6));

  const auto texts = Texts(**engine, golden.texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(golden.texts[i], texts[i].token_count);
    CHECK(Cosine(texts[i].text, golden.text_vectors[i]) >= 0.99999);
  }
  const auto images = Images(**engine, golden.pictures);
  for (size_t i = 0; i < images.size(); ++i) {
    CAPTURE(i);
    CHECK(Cosine(images[i].image, golden.image_vectors[i]) >= 0.99999);
  }

  EmbedRequest pairs;
  pairs.kind = RequestKind::kPair;
  pairs.inputs = {{.text = TextOf(golden.texts[2]).text, .image = ImageOf(golden.pictures[0]).image}};
  const EmbedResult pair = Call(**engine, std::move(pairs))[0];
  CHECK(Cosine(pair.text, pair.image) == Approx(Cosine(golden.text_vectors[2], golden.image_vectors[0])).margin(1e-5));
  CHECK(pair.fused.size() == info.dimensions);
}

TEST_CASE("A SigLIP text is padded to the model's length, given as a text or as ready ids") {
  const SharedGolden golden = ReadShared("siglip");
  const auto engine = Start(WholeFolder(FamilyFolder("siglip")));
  REQUIRE(engine.ok());
  const EmbedResult text = Texts(**engine, {""})[0];
  CHECK(text.token_count == 96);
  const std::vector<int32_t> end = {1};  // what the tokeniser makes of the empty text
  EmbedRequest request;
  request.inputs = {{.text = TextInput{.text = {}, .token_ids = end}, .image = {}}};
  const EmbedResult ids = Call(**engine, std::move(request))[0];
  CHECK(Cosine(ids.text, golden.text_vectors[0]) >= 0.99999);
}

TEST_CASE("A folder of one tower serves what it has") {
  const FamilyCopy texts("siglip");
  texts.PatchConfig({{"model_type", "siglip_text_model"}});
  {
    // As SiglipTextModel's folder says it, with text_config at top level.
    const auto config = nlohmann::json::parse(ReadFile(texts.File("config.json")));
    texts.PatchConfig(config.at("text_config"));
    const auto engine = Start(WholeFolder(texts.path()));
    CAPTURE(std::string(engine.status().message()));
    REQUIRE(engine.ok());
    const ModelInfo info = (*engine)->Models()[0];
    CHECK(info.text);
    CHECK_FALSE(info.image);
    CHECK_FALSE(info.pair);
    CHECK(info.fusion.empty());
    CHECK(info.logit_scale == 0);
    const SharedGolden golden = ReadShared("siglip");
    CHECK(Cosine(Texts(**engine, golden.texts)[3].text, golden.text_vectors[3]) >= 0.99999);
  }
  const SharedGolden golden = ReadShared("clip");
  ModelOptions only_images = Fp32();
  only_images.image.folder = FamilyFolder("clip");
  const auto engine = Start(only_images);
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());
  const ModelInfo info = (*engine)->Models()[0];
  CHECK_FALSE(info.text);
  CHECK(info.image);
  CHECK(info.dimensions == 20);
  CHECK(info.max_tokens == 0);
  CHECK(info.compute_type.empty());
  CHECK(info.image_compute_type == "fp32");
  CHECK_FALSE(info.revision.empty());
  CHECK(Cosine(Images(**engine, golden.pictures)[1].image, golden.image_vectors[1]) >= 0.99999);
  EmbedRequest text;
  text.inputs.push_back(TextOf("a"));
  const absl::Status refused = (*engine)->Submit(std::move(text), [](EmbedResponse) {});
  CHECK(refused.code() == absl::StatusCode::kUnimplemented);
}

TEST_CASE("A part's own folder goes before the whole model's") {
  ModelOptions model = WholeFolder(FamilyFolder("clip"));
  model.text.folder = FamilyFolder("siglip-2");  // vectors of 20 numbers, as CLIP's images
  const auto engine = Start(model);
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());
  const SharedGolden texts = ReadShared("siglip-2");
  const SharedGolden images = ReadShared("clip");
  CHECK(Cosine(Texts(**engine, texts.texts)[2].text, texts.text_vectors[2]) >= 0.99999);
  CHECK(Cosine(Images(**engine, images.pictures)[0].image, images.image_vectors[0]) >= 0.99999);
  CHECK((*engine)->Models()[0].logit_scale == 0);  // it is of two towers of one model
}

TEST_CASE("A folder of sentence-transformers with a CLIPModel serves both towers of its inner folder") {
  const TemporaryFolder outer;
  std::filesystem::copy(FamilyFolder("clip"), outer.File("0_CLIPModel"));
  outer.Write("modules.json",
              R"([{"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}])");
  const auto engine = Start(WholeFolder(outer.path()));
  CAPTURE(std::string(engine.status().message()));
  REQUIRE(engine.ok());
  const SharedGolden golden = ReadShared("clip");
  CHECK((*engine)->Models()[0].pair);
  CHECK((*engine)->Models()[0].logit_scale == Approx(golden.logit_scale).epsilon(1e-6));
  CHECK(Cosine(Texts(**engine, golden.texts)[4].text, golden.text_vectors[4]) >= 0.99999);
  CHECK(Cosine(Images(**engine, golden.pictures)[2].image, golden.image_vectors[2]) >= 0.99999);
}

TEST_CASE("Folders that cannot be served whole say what is wrong with them") {
  const auto error_of = [](const FamilyCopy& copy) { return ErrorOf(WholeFolder(copy.path())); };
  {
    const FamilyCopy naflex("siglip");
    naflex.PatchConfig({{"model_type", "siglip2"}});
    CHECK_THAT(error_of(naflex), ContainsSubstring("model_type 'siglip2'") && ContainsSubstring("NaFlex"));
  }
  {
    const FamilyCopy pieces("siglip");
    std::filesystem::rename(pieces.File("tokenizer.json"), pieces.File("spiece.model"));
    CHECK_THAT(error_of(pieces), ContainsSubstring("spiece.model is not read"));
  }
  {
    const FamilyCopy other("clip");
    other.PatchConfig({{"model_type", "donut"}});
    CHECK_THAT(error_of(other), ContainsSubstring("model_type 'donut' is neither a text nor an image model"));
  }
  {
    const FamilyCopy unprepared("clip");
    std::filesystem::remove(unprepared.File("preprocessor_config.json"));
    CHECK_THAT(error_of(unprepared), ContainsSubstring("preprocessor_config.json is missing"));
  }
  {
    const FamilyCopy wrong("clip");
    wrong.PatchConfig({{"projection_dim", 21}});
    CHECK_THAT(error_of(wrong), ContainsSubstring("text_projection.weight"));
  }
  {
    const FamilyCopy padded("siglip");
    std::filesystem::remove(padded.File("tokenizer_config.json"));
    padded.PatchConfig({{"text_config", {{"pad_token_id", nullptr}}}});
    CHECK_THAT(error_of(padded), ContainsSubstring("the model's texts are padded"));
  }
  {
    const FamilyCopy end("clip");
    end.PatchConfig({{"text_config", {{"eos_token_id", {2, 3}}}}});
    CHECK_THAT(error_of(end), ContainsSubstring("eos_token_id must be a token id, is [2,3]"));
  }
}

TEST_CASE("Parts that share no space, and labels without texts, are refused") {
  ModelOptions apart = Fp32();
  apart.text.folder = FamilyFolder("siglip");  // 24 numbers
  apart.image.folder = FamilyFolder("clip");   // 20
  CHECK_THAT(ErrorOf(apart), ContainsSubstring("images have vectors of 20 numbers, texts of 24"));
  ModelOptions labels = Fp32();
  labels.image.folder = FamilyFolder("clip");
  labels.image.labels = "labels.txt";
  CHECK_THAT(ErrorOf(labels), ContainsSubstring("text.folder must be given where image.labels is"));
  CHECK_THAT(ErrorOf(Fp32()), ContainsSubstring("models[0].folder must be given"));
}

}  // namespace
}  // namespace tributary
