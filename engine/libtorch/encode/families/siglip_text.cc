// SigLIP's text tower: every token sees the whole text and its padding, which is a part of what the model was trained
// on (prepare/text adds it); a text's vector is the last token's state, through a linear layer. Source: Zhai et al.
// 2023, https://arxiv.org/abs/2303.15343; tensor names of transformers' SiglipModel and SiglipTextModel. SigLIP 2 of
// one size is the same model.
#include <optional>
#include <utility>

#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/families/text_tower.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {

LoadedFamily LoadSiglipText(const FamilyInput& input) {
  constexpr int64_t kMaxSize = int64_t{1} << 24;
  auto file = TextTowerFile(input.config, "siglip");
  if (!file.ok()) return file.status();
  const TextTowerConfig config = ReadTextTowerConfig(*file, {.hidden_size = 768,
                                                             .intermediate_size = 3072,
                                                             .heads = 12,
                                                             .vocabulary_size = 32000,
                                                             .positions = 64,
                                                             .norm_epsilon = 1e-6,
                                                             .activation = "gelu_pytorch_tanh"});
  const int64_t hidden = config.encoder.hidden_size;
  const int64_t dimensions = file->Count("projection_size", kMaxSize, hidden);
  if (!file->status().ok()) return file->status();

  ModuleReader reader(input.weights, kTextTowerProbe, input.type, input.device);
  PreNormParts parts = ReadTextTower(reader, config, /*causal=*/false, input);
  if (!reader.status().ok()) return reader.status();
  auto prefix = input.weights.PrefixOf(kTextTowerProbe);
  if (!prefix.ok()) return prefix.status();
  auto weight = input.weights.Get(*prefix + "head.weight", {dimensions, hidden});
  if (!weight.ok()) return weight.status();
  auto bias = input.weights.Get(*prefix + "head.bias", {dimensions});
  if (!bias.ok()) return bias.status();
  parts.own_head = TextHead::Of(std::nullopt, *weight, *bias, hidden, input.device);
  return Finish<PreNormEncoder>(config.encoder, reader, std::move(parts));
}

}  // namespace tributary
