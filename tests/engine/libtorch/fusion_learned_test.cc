// The learned fusion modules against PyTorch (tests/golden/generate_fusion.py), and folders that are wrong.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/libtorch/fuse/fusion_program.h"
#include "tests/engine/libtorch/family_goldens.h"
#include "tests/engine/libtorch/fusion_batch.h"
#include "tests/engine/libtorch/run_batch.h"
#include "tests/engine/libtorch/safetensors_writer.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

constexpr uint32_t kDimension = 24;  // of the goldens
constexpr const char* kGoldens[] = {"concat_projection", "concat_projection-one_layer", "gated", "cross_attention"};

std::string GoldenFolder(const std::string& name) {
  return (std::filesystem::path(TRIBUTARY_SOURCE_DIR "/tests/golden/fusion") / name).string();
}

absl::StatusOr<LoadedFusionProgram> Load(const std::string& kind, const std::string& folder,
                                         uint32_t dimension = kDimension) {
  FusionProgramOptions options;
  options.fusion.kind = kind;
  options.fusion.folder = folder;
  options.dimension = dimension;
  options.max_batch_items = 16;
  return LoadFusionProgram(options);
}

absl::StatusOr<LoadedFusionProgram> LoadGolden(const std::string& name) {
  return Load(name.substr(0, name.find('-')), GoldenFolder(name));
}

std::string ErrorOf(const std::string& kind, const std::string& folder, uint32_t dimension = kDimension) {
  return std::string(Load(kind, folder, dimension).status().message());
}

struct FusionGolden {
  std::vector<FusionParts> pairs;
  std::vector<std::vector<float>> fused;
};

FusionGolden ReadGolden(const std::string& name) {
  const auto parts = ReadFloats(GoldenFolder(name) + "/parts.f32");
  const auto mask = ReadFloats(GoldenFolder(name) + "/mask.f32");
  const auto fused = ReadFloats(GoldenFolder(name) + "/fused.f32");
  FusionGolden golden;
  for (size_t i = 0; 2 * i < mask.size(); ++i) {
    FusionParts pair;
    for (size_t part = 0; part < 2; ++part) {
      const auto first = parts.begin() + static_cast<std::ptrdiff_t>((2 * i + part) * kDimension);
      if (mask[2 * i + part] > 0) pair.parts[part].assign(first, first + kDimension);
    }
    golden.pairs.push_back(std::move(pair));
    const auto row = fused.begin() + static_cast<std::ptrdiff_t>(i * kDimension);
    golden.fused.emplace_back(row, row + kDimension);
  }
  return golden;
}

// A copy of a golden's folder whose config.json and tensors can be changed.
class ModuleCopy {
 public:
  explicit ModuleCopy(const std::string& name) {
    std::filesystem::copy(GoldenFolder(name), folder_.path(), std::filesystem::copy_options::recursive);
  }
  const std::string& path() const { return folder_.path(); }

  void PatchConfig(const nlohmann::json& patch) const {
    auto config = nlohmann::json::parse(ReadFile(folder_.File("config.json")));
    config.update(patch);
    folder_.Write("config.json", config.dump());
  }
  void Write(const std::string& name, const std::string& bytes) const { folder_.Write(name, bytes); }
  void Remove(const std::string& name) const { std::filesystem::remove(folder_.File(name)); }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("Every learned fusion equals PyTorch's, of both parts, the text only and the image only") {
  for (const std::string name : kGoldens) {
    CAPTURE(name);
    const FusionGolden golden = ReadGolden(name);
    REQUIRE(golden.pairs.size() == 12);
    const auto loaded = LoadGolden(name);
    CAPTURE(std::string(loaded.status().message()));
    REQUIRE(loaded.ok());
    CHECK(loaded->program->OutputDimension() == kDimension);
    const auto run = RunBatch(*loaded->program, FusionBatch(golden.pairs));
    REQUIRE(run.ok());
    for (size_t i = 0; i < golden.pairs.size(); ++i) {
      const auto alone = RunBatch(*loaded->program, FusionBatch({golden.pairs[i]}));
      REQUIRE(alone.ok());
      for (uint32_t d = 0; d < kDimension; ++d) {
        CAPTURE(i, d);
        CHECK(std::abs(run->vectors[i][d] - golden.fused[i][d]) <= 1e-4);
        CHECK(std::abs(alone->vectors[0][d] - golden.fused[i][d]) <= 1e-4);
      }
    }
  }
}

TEST_CASE("A gated fusion gives a lone part as it is") {
  const FusionGolden golden = ReadGolden("gated");
  const auto run = RunBatch(*LoadGolden("gated")->program, FusionBatch(golden.pairs));
  REQUIRE(run.ok());
  for (size_t i = 0; i < golden.pairs.size(); ++i) {
    const auto& [text, image] = golden.pairs[i].parts;
    if (text.empty()) CHECK(run->vectors[i] == image);
    if (image.empty()) CHECK(run->vectors[i] == text);
  }
}

TEST_CASE("A learned fusion counts its weights, and its revision changes with them") {
  const auto gated = LoadGolden("gated");
  REQUIRE(gated.ok());
  CHECK(gated->parameter_count == 2 * 24 * 24 + 24);
  CHECK(gated->parameter_bytes == 4 * gated->parameter_count);
  CHECK(LoadGolden("concat_projection")->parameter_count == 2 * 24 + 48 * 40 + 40 + 40 * 24 + 24 + 2 * 24);
  const uint64_t layer = 3 * 24 * 24 + 3 * 24 + 24 * 24 + 24 + 2 * 24 * 60 + 60 + 24 + 4 * 24;
  CHECK(LoadGolden("cross_attention")->parameter_count == 3 * 24 + 2 * layer + 2 * 24 + 24 * 24 + 24);

  const ModuleCopy copy("gated");
  CHECK(Load("gated", copy.path())->revision == gated->revision);
  std::string bytes = ReadFile(copy.path() + "/model.safetensors");
  bytes.back() ^= 1;
  copy.Write("model.safetensors", bytes);
  CHECK(Load("gated", copy.path())->revision != gated->revision);
}

TEST_CASE("A config.json that is not of the module, or says what is not done, is refused by key") {
  struct Case {
    const char* golden;
    nlohmann::json patch;
    const char* message;
  };
  const Case cases[] = {
      {"gated", {{"fusion", "film"}}, "config.json: fusion is 'film', fusion.kind of the configuration 'gated'"},
      {"gated", {{"fusion", nullptr}}, "config.json: fusion is '', fusion.kind of the configuration 'gated'"},
      {"gated", {{"dimension", 0}}, "config.json: dimension must be a whole number from 1 to 1048576, is 0"},
      {"gated", {{"hidden_size", 8}}, "config.json: unknown key 'hidden_size'; the keys are dimension, fusion"},
      {"concat_projection", {{"hidden_size", "8"}}, "config.json: hidden_size must be a whole number"},
      {"concat_projection", {{"layer_norm", 1}}, "config.json: layer_norm must be true or false, is 1"},
      {"concat_projection", {{"layer_norm_eps", 0}}, "config.json: layer_norm_eps must be above 0 and below 1, is 0"},
      {"concat_projection", {{"activation", "relu"}}, "config.json: unknown key 'activation'"},
      {"cross_attention", {{"num_attention_heads", 5}}, "num_attention_heads 5 does not divide dimension 24"},
      {"cross_attention", {{"num_hidden_layers", 65}}, "num_hidden_layers must be a whole number from 1 to 64, is 65"},
      {"cross_attention", {{"mlp_ratio", 2.51}}, "mlp_ratio 2.51 times dimension 24 must be a whole number"},
      {"cross_attention", {{"mlp_ratio", -1}}, "mlp_ratio -1 times dimension 24 must be a whole number"},
      {"cross_attention", {{"mlp_ratio", 1e300}}, "mlp_ratio 1e+300 times dimension 24 must be a whole number"},
      {"cross_attention", {{"dropout", 0.1}}, "config.json: unknown key 'dropout'"},
  };
  for (const Case& wrong : cases) {
    const ModuleCopy copy(wrong.golden);
    copy.PatchConfig(wrong.patch);
    CAPTURE(wrong.golden, wrong.patch.dump());
    CHECK_THAT(ErrorOf(wrong.golden, copy.path()), ContainsSubstring(wrong.message));
  }
  const ModuleCopy copy("concat_projection");
  copy.Write("config.json", R"({"fusion": "concat_projection", "dimension": 24})");
  CHECK_THAT(ErrorOf("concat_projection", copy.path()), ContainsSubstring("hidden_size is missing (null: one layer)"));
  for (const char* other : {"[]", "3", "null", "\"gated\""}) {
    copy.Write("config.json", other);
    CHECK_THAT(ErrorOf("concat_projection", copy.path()), ContainsSubstring("config.json: fusion is ''"));
  }
  copy.Write("config.json", "{");
  CHECK_THAT(ErrorOf("concat_projection", copy.path()), ContainsSubstring("config.json is not valid JSON"));
}

TEST_CASE("A module for vectors of another size than the model's is refused") {
  CHECK_THAT(ErrorOf("gated", GoldenFolder("gated"), 7),
             ContainsSubstring("config.json: dimension is 24, the model's vectors have 7 numbers"));
}

TEST_CASE("Missing files and tensors, other shapes, other types and tensors too many are refused by name") {
  const ModuleCopy copy("gated");
  copy.Remove("model.safetensors");
  CHECK_THAT(ErrorOf("gated", copy.path()), ContainsSubstring("holds neither model.safetensors nor"));
  copy.Remove("config.json");
  CHECK(Load("gated", copy.path()).status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(ErrorOf("gated", copy.path()), ContainsSubstring("/config.json"));

  copy.Write("config.json", R"({"fusion": "gated", "dimension": 2})");
  const auto error = [&](const std::string& file) {
    copy.Write("model.safetensors", file);
    return ErrorOf("gated", copy.path(), 2);
  };
  const FloatTensor weight{.shape = {2, 4}, .values = std::vector<float>(8)};
  const FloatTensor bias{.shape = {2}, .values = std::vector<float>(2)};
  CHECK(error(SafetensorsOf({{"gate.weight", weight}, {"gate.bias", bias}})).empty());
  CHECK_THAT(error(SafetensorsOf({{"gate.weight", weight}})), ContainsSubstring("no tensor 'gate.bias'"));
  CHECK_THAT(error(SafetensorsOf({{"gate.weight", bias}, {"gate.bias", bias}})),
             ContainsSubstring("tensor 'gate.weight' has shape [2], expected [2, 4]"));
  CHECK_THAT(error(SafetensorsOf({{"gate.weight", weight}, {"gate.bias", bias}, {"up.bias", bias}})),
             ContainsSubstring("tensor 'up.bias' is none of what config.json describes"));
  const std::string integers = R"({"gate.weight":{"dtype":"I32","shape":[2,4],"data_offsets":[0,32]},)"
                               R"("gate.bias":{"dtype":"F32","shape":[2],"data_offsets":[32,40]}})";
  CHECK_THAT(error(SafetensorsBytes(integers, std::string(40, '\0'))),
             ContainsSubstring("tensor 'gate.weight' is not of a floating point type"));
  CHECK_THAT(error("short"), ContainsSubstring("model.safetensors: not a safetensors file"));
}

}  // namespace
}  // namespace tributary
