// Every text encoder family against its reference.
#include "engine/libtorch/encode/text_families.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>

#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/text_encoder.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/libtorch/weights/hub_folder.h"
#include "engine/libtorch/weights/safetensors.h"
#include "tests/engine/libtorch/family_goldens.h"
#include "tests/engine/libtorch/text_batch.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

absl::StatusOr<LoadedTextProgram> Load(const std::string& path, const char* dtype) {
  InitTorchThread();
  auto folder = ReadTextModelFolder(path);
  if (!folder.ok()) return folder.status();
  return LoadTextProgram(*folder, {.dtype = dtype});
}

// Hidden states of each text, all texts in one batch with some rows after the last text.
absl::StatusOr<std::vector<std::vector<float>>> HiddenStates(const std::string& folder,
                                                             const std::vector<TokenIds>& texts, ComputeType type) {
  InitTorchThread();
  auto weights = SafetensorsWeights::OpenFolder(folder);
  if (!weights.ok()) return weights.status();
  return GuardTorch([&]() -> absl::StatusOr<std::vector<std::vector<float>>> {
    auto encoder = LoadTextEncoder(folder, *weights, type, {});
    if (!encoder.ok()) return encoder.status();
    std::vector<int32_t> ids, positions, starts;
    std::vector<uint32_t> lengths;
    for (const TokenIds& text : texts) {
      starts.push_back(static_cast<int32_t>(ids.size()));
      lengths.push_back(static_cast<uint32_t>(text.size()));
      ids.insert(ids.end(), text.begin(), text.end());
      positions.resize(ids.size());
      std::iota(positions.begin() + starts.back(), positions.end(), 0);
    }
    starts.push_back(static_cast<int32_t>(ids.size()));
    ids.resize(ids.size() + 5, 0);
    positions.resize(ids.size(), 0);
    const auto tensor = [](std::vector<int32_t>& values) {
      return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kInt);
    };
    const at::Tensor hidden =
        (*encoder)->Forward(tensor(ids), tensor(positions), {.lengths = lengths, .cu_seqlens = tensor(starts)});
    const at::Tensor exact = hidden.to(at::kFloat).contiguous();
    std::vector<std::vector<float>> states;
    for (size_t i = 0; i < texts.size(); ++i) {
      const float* const data = exact.const_data_ptr<float>();
      states.emplace_back(data + starts[i] * exact.size(1), data + starts[i + 1] * exact.size(1));
    }
    return states;
  });
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

void CheckCosines(const std::vector<std::vector<float>>& actual, const std::vector<std::vector<float>>& expected,
                  double least) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(Cosine(actual[i], expected[i]) >= least);
  }
}

void CheckFp32(const std::vector<std::vector<float>>& actual, const std::vector<std::vector<float>>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(LargestDifference(actual[i], expected[i]) <= 1e-4);
    CHECK(Cosine(actual[i], expected[i]) >= 0.99999);
  }
}

TEST_CASE("Every model_type of the registry has a golden, and every golden is in it") {
  std::set<std::string> listed, golden;
  for (const TextFamily& family : TextFamilies()) CHECK(listed.emplace(family.model_type).second);
  for (const std::string& name : FamilyGoldenNames()) {
    golden.insert(nlohmann::json::parse(ReadFile(FamilyFolder(name) / "config.json")).at("model_type"));
  }
  CHECK(listed == golden);
}

TEST_CASE("Every family's hidden states equal its reference's, texts of 1 to max tokens in one batch") {
  for (const std::string& name : FamilyGoldenNames()) {
    CAPTURE(name);
    const FamilyGolden golden = LoadFamilyGolden(name);
    const auto hidden = HiddenStates(golden.folder, golden.ids, ComputeType::kFp32);
    CAPTURE(std::string(hidden.status().message()));
    REQUIRE(hidden.ok());
    CheckFp32(*hidden, golden.hidden);
  }
}

TEST_CASE("Every family's vectors equal its reference's, in fp32 and in bf16") {
  for (const std::string& name : FamilyGoldenNames()) {
    CAPTURE(name);
    const FamilyGolden golden = LoadFamilyGolden(name);
    const auto loaded = Load(golden.folder, "fp32");
    CAPTURE(std::string(loaded.status().message()));
    REQUIRE(loaded.ok());
    CHECK(loaded->max_tokens == golden.max_tokens);
    CHECK(loaded->program->OutputDimension() == golden.vectors[0].size());
    const auto run = RunBatch(*loaded->program, TextBatch(golden.ids));
    REQUIRE(run.ok());
    CheckFp32(run->vectors, golden.vectors);

    const auto half = Load(golden.folder, "bf16");
    if (!half.ok()) {  // a processor without any bf16 products says so
      CHECK_THAT(std::string(half.status().message()), ContainsSubstring("needs a processor with"));
      continue;
    }
    const auto half_run = RunBatch(*half->program, TextBatch(golden.ids));
    REQUIRE(half_run.ok());
    CheckCosines(half_run->vectors, golden.vectors, 0.999);
  }
}

TEST_CASE("Every family's vectors in int8 equal its reference's to a cosine of 0.99") {
  for (const std::string& name : FamilyGoldenNames()) {
    CAPTURE(name);
    const FamilyGolden golden = LoadFamilyGolden(name);
    const auto loaded = Load(golden.folder, "int8");
    CAPTURE(std::string(loaded.status().message()));
    REQUIRE(loaded.ok());
    CHECK(loaded->compute_type == ComputeType::kInt8);
    const auto run = RunBatch(*loaded->program, TextBatch(golden.ids));
    REQUIRE(run.ok());
    CheckCosines(run->vectors, golden.vectors, 0.99);
  }
}

TEST_CASE("A text of every family is, in int8, to the bit the same alone as among others, up to its fp32 head") {
  for (const std::string& name : FamilyGoldenNames()) {
    const FamilyGolden golden = LoadFamilyGolden(name);
    // Dense modules, and what CLIP's and SigLIP's towers bring themselves.
    const bool dense = std::filesystem::exists(golden.folder + "/2_Dense") || name.rfind("clip", 0) == 0 ||
                       name.rfind("siglip", 0) == 0;
    const auto loaded = Load(golden.folder, "int8");
    REQUIRE(loaded.ok());
    std::vector<TokenIds> texts = golden.ids;
    texts.push_back(texts[2]);  // two of one length
    const auto together = RunBatch(*loaded->program, TextBatch(texts));
    REQUIRE(together.ok());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(name, i);
      const auto alone = RunBatch(*loaded->program, TextBatch({texts[i]}));
      REQUIRE(alone.ok());
      // Dense layers over the pooled vectors are LibTorch's, which sums in another order for another batch size. One
      // value rounded to another integer before them would show a thousand times as much.
      CHECK(LargestDifference(alone->vectors[0], together->vectors[i]) <= (dense ? 1e-6 : 0));
    }
  }
}

TEST_CASE("A text of every family is the same alone as among others") {
  for (const std::string& name : FamilyGoldenNames()) {
    const FamilyGolden golden = LoadFamilyGolden(name);
    const auto loaded = Load(golden.folder, "fp32");
    REQUIRE(loaded.ok());
    std::vector<TokenIds> texts = golden.ids;
    texts.push_back(texts[2]);  // two of one length
    const auto together = RunBatch(*loaded->program, TextBatch(texts));
    REQUIRE(together.ok());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(name, i);
      const auto alone = RunBatch(*loaded->program, TextBatch({texts[i]}));
      REQUIRE(alone.ok());
      // Rounding alone: other token totals, other blocks of the products.
      CHECK(LargestDifference(alone->vectors[0], together->vectors[i]) <= 2e-5);
    }
  }
}

TEST_CASE("A text one token longer than the positions is refused") {
  for (const std::string& name : FamilyGoldenNames()) {
    CAPTURE(name);
    const FamilyGolden golden = LoadFamilyGolden(name);
    const auto loaded = Load(golden.folder, "fp32");
    REQUIRE(loaded.ok());
    const auto run = RunBatch(*loaded->program, TextBatch({TokenIds(golden.max_tokens + 1, 3)}));
    CHECK_THAT(std::string(run.status().message()), ContainsSubstring("a text of 97 tokens"));
  }
}

TEST_CASE("The spellings that config.json has on the hub mean the same model") {
  struct Case {
    const char* family;
    nlohmann::json patch;
  };
  const nlohmann::json nomic = {{"hidden_size", nullptr},
                                {"num_hidden_layers", nullptr},
                                {"num_attention_heads", nullptr},
                                {"intermediate_size", nullptr},
                                {"max_position_embeddings", nullptr},
                                {"layer_norm_eps", nullptr},
                                {"hidden_act", nullptr},
                                {"head_dim", nullptr},
                                {"rope_parameters", nullptr},
                                {"n_embd", 32},
                                {"n_layer", 2},
                                {"n_head", 4},
                                {"n_inner", 48},
                                {"n_positions", 96},
                                {"layer_norm_epsilon", 1e-12},
                                {"activation_function", "swiglu"},
                                {"rotary_emb_base", 1000},
                                {"rotary_emb_fraction", 1.0},
                                {"rotary_emb_interleaved", false},
                                {"qkv_proj_bias", false},
                                {"mlp_fc1_bias", false},
                                {"mlp_fc2_bias", false},
                                {"prenorm", false},
                                {"vocab_size", 90},
                                {"pad_vocab_size_multiple", 32}};
  const Case cases[] = {
      {"nomic_bert", nomic},
      {"gte", {{"model_type", "new"}, {"rope_parameters", nullptr}, {"rope_theta", 160000}, {"pack_qkv", true}}},
      {"modernbert",
       {{"layer_types", nullptr},
        {"rope_parameters", nullptr},
        {"global_attn_every_n_layers", 3},
        {"global_rope_theta", 160000.0},
        {"local_rope_theta", 10000.0},
        {"position_embedding_type", "absolute"}}},
      {"qwen3", {{"layer_types", nullptr}, {"rope_parameters", nullptr}, {"rope_theta", 10000}}},
      {"gemma3_text", {{"rope_parameters", nullptr}, {"rope_theta", 1000000.0}, {"rope_local_base_freq", 10000.0}}},
  };
  for (const Case& hub : cases) {
    CAPTURE(hub.family);
    const FamilyGolden golden = LoadFamilyGolden(hub.family);
    const FamilyCopy copy(hub.family);
    copy.PatchConfig(hub.patch);
    const auto hidden = HiddenStates(copy.path(), golden.ids, ComputeType::kFp32);
    CAPTURE(std::string(hidden.status().message()));
    REQUIRE(hidden.ok());
    CheckFp32(*hidden, golden.hidden);
  }
}

TEST_CASE("Names with another prefix, tensors that are not the encoder's and the oldest norm names load as well") {
  const FamilyGolden golden = LoadFamilyGolden("distilbert");
  const FamilyCopy copy("distilbert");
  copy.RewriteTensors("model.safetensors", [](nlohmann::json& header, std::string& data) {
    nlohmann::json renamed = nlohmann::json::object();
    for (const auto& [name, entry] : header.items()) {
      std::string to = name == "__metadata__" ? name : "wrapped.encoder." + name;
      if (const size_t at = to.find("LayerNorm.weight"); at != std::string::npos) to.replace(at, 16, "LayerNorm.gamma");
      if (const size_t at = to.find("LayerNorm.bias"); at != std::string::npos) to.replace(at, 14, "LayerNorm.beta");
      renamed[to] = entry;
    }
    renamed["score.weight"] = {{"dtype", "I64"}, {"shape", {1}}, {"data_offsets", {data.size(), data.size() + 8}}};
    data.append(8, '\0');
    header = renamed;
  });
  const auto hidden = HiddenStates(copy.path(), golden.ids, ComputeType::kFp32);
  CAPTURE(std::string(hidden.status().message()));
  REQUIRE(hidden.ok());
  CheckFp32(*hidden, golden.hidden);
}

TEST_CASE("Gemma 3 is not run in fp16") {
  const std::string folder = FamilyFolder("gemma3_text");
  const auto weights = SafetensorsWeights::OpenFolder(folder);
  REQUIRE(weights.ok());
  const auto encoder = LoadTextEncoder(folder, *weights, ComputeType::kFp16, {});
  CHECK_THAT(std::string(encoder.status().message()), ContainsSubstring("dtype fp16 is too small"));
}

TEST_CASE("The revision covers the dense modules' weights") {
  const FamilyCopy copy("gemma3_text");
  const std::string before = Load(copy.path(), "fp32")->revision;
  copy.RewriteTensors("3_Dense/model.safetensors", [](nlohmann::json&, std::string& data) { data[0] ^= 1; });
  CHECK(Load(copy.path(), "fp32")->revision != before);
}

}  // namespace
}  // namespace tributary
