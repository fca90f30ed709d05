// CLIP's text tower: causal; a text's vector is the state of its end token, projected into the space shared with
// images. Source: Radford et al. 2021, https://arxiv.org/abs/2103.00020; tensor names of transformers' CLIPModel,
// CLIPTextModelWithProjection and CLIPTextModel.
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"
#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/families/text_tower.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kDefaultProjection = 512;
constexpr int64_t kDefaultEnd = 49407;
// What the first configurations say, although no tokeniser has it there.
constexpr int64_t kWrongEnd = 2;

EndToken ReadEndToken(JsonFile& file) {
  if (!file.Has("eos_token_id")) return {.id = kDefaultEnd, .is_largest = false};
  const nlohmann::json& value = file.root()["eos_token_id"];
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(kMaxSize)) {
    file.Fail(absl::StrCat("eos_token_id must be a token id, is ", Shown(value)));
    return {};
  }
  const auto id = value.get<int64_t>();
  return {.id = id, .is_largest = id == kWrongEnd};
}

// It lies beside the text model, not in it. Undefined where a tower alone has none.
absl::StatusOr<at::Tensor> ReadProjection(const FamilyInput& input, bool is_required, int64_t out, int64_t in) {
  constexpr std::string_view kTower = "text_model.";
  auto prefix = input.weights.PrefixOf(kTextTowerProbe);
  if (!prefix.ok()) return prefix.status();
  if (const size_t at = prefix->rfind(kTower); at != std::string::npos) prefix->resize(at);
  const std::string name = *prefix + "text_projection.weight";
  if (!is_required && !input.weights.Has(name)) return at::Tensor();
  return input.weights.Get(name, {out, in});
}

}  // namespace

LoadedFamily LoadClipText(const FamilyInput& input) {
  auto file = TextTowerFile(input.config, "clip");
  if (!file.ok()) return file.status();
  const bool has_both = input.config.root().value("model_type", "") == "clip";
  const TextTowerConfig config = ReadTextTowerConfig(*file, {.hidden_size = 512,
                                                             .intermediate_size = 2048,
                                                             .heads = 8,
                                                             .vocabulary_size = 49408,
                                                             .positions = 77,
                                                             .norm_epsilon = 1e-5,
                                                             .activation = "quick_gelu"});
  const EndToken end = ReadEndToken(*file);
  JsonFile& projection_file = has_both ? input.config : *file;
  const int64_t dimensions = projection_file.Count("projection_dim", kMaxSize, kDefaultProjection);
  if (!projection_file.status().ok()) return projection_file.status();
  if (!file->status().ok()) return file->status();

  ModuleReader reader(input.weights, kTextTowerProbe, input.type, input.device);
  PreNormParts parts = ReadTextTower(reader, config, /*causal=*/true, input);
  if (!reader.status().ok()) return reader.status();
  const int64_t hidden = config.encoder.hidden_size;
  auto projection = ReadProjection(input, has_both, dimensions, hidden);
  if (!projection.ok()) return projection.status();
  parts.own_head = TextHead::Of(end, *projection, at::Tensor(), hidden, input.device);
  return Finish<PreNormEncoder>(config.encoder, reader, std::move(parts));
}

}  // namespace tributary
