#include "engine/libtorch/encode/families/text_tower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/image_families/vision_parts.h"

namespace tributary {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kDefaultLayers = 12;

}  // namespace

absl::StatusOr<JsonFile> TextTowerFile(const JsonFile& file, const char* both) {
  if (!file.root().is_object() || file.root().value("model_type", "") != both) return file;
  return file.Section("text_config");
}

TextTowerConfig ReadTextTowerConfig(JsonFile& file, const TextTowerDefaults& defaults) {
  TextTowerConfig config;
  EncoderConfig& encoder = config.encoder;
  encoder.hidden_size = file.Count("hidden_size", kMaxSize, defaults.hidden_size);
  encoder.layers = file.Count("num_hidden_layers", 1024, kDefaultLayers);
  encoder.heads = file.Count("num_attention_heads", kMaxSize, defaults.heads);
  encoder.key_value_heads = encoder.heads;
  encoder.intermediate_size = file.Count("intermediate_size", kMaxSize, defaults.intermediate_size);
  encoder.vocabulary_size = file.Count("vocab_size", kMaxSize, defaults.vocabulary_size);
  encoder.max_positions = file.Count("max_position_embeddings", kMaxSize, defaults.positions);
  encoder.norm_epsilon = file.Number("layer_norm_eps", defaults.norm_epsilon);
  if (encoder.hidden_size % encoder.heads != 0) {
    file.Fail(
        absl::StrCat("num_attention_heads ", encoder.heads, " does not divide hidden_size ", encoder.hidden_size));
  }
  encoder.head_size = encoder.hidden_size / encoder.heads;
  config.activation = ReadFeedForwardActivation(file, defaults.activation);
  for (const char* key : {"quantization_config", "pruned_heads", "head_dim"}) RefuseKey(file, key);
  return config;
}

PreNormParts ReadTextTower(ModuleReader& reader, const TextTowerConfig& tower, bool causal, const FamilyInput& input) {
  const EncoderConfig& config = tower.encoder;
  const int64_t hidden = config.hidden_size;
  const auto norm = [&](const std::string& name) {
    return reader.LayerNorm(name, hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  };
  AttentionOptions attention = WholeTextAttention(config);
  if (causal) attention.after = 0;
  PreNormParts parts;
  parts.type = TorchType(input.type);
  parts.words = reader.Table(kTextTowerProbe, config.vocabulary_size, hidden);
  const at::Tensor positions = reader.Values("embeddings.position_embedding.weight", {config.max_positions, hidden});
  if (reader.status().ok()) parts.positions = positions.to(TorchDevice(input.device));
  for (int64_t i = 0; i < config.layers && reader.status().ok(); ++i) {
    const std::string layer = absl::StrCat("encoder.layers.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in) {
      return reader.ReadLinear(layer + name, out, in, /*bias=*/true);
    };
    PreNormLayer next;
    next.attention_norm = norm(layer + "layer_norm1");
    next.attention = {.qkv = reader.Place(reader.Join({linear("self_attn.q_proj", hidden, hidden),
                                                       linear("self_attn.k_proj", hidden, hidden),
                                                       linear("self_attn.v_proj", hidden, hidden)})),
                      .output = reader.Place(linear("self_attn.out_proj", hidden, hidden)),
                      .options = attention,
                      .head_norm = {}};
    next.feed_forward_norm = norm(layer + "layer_norm2");
    next.feed_forward = MakeFeedForward(reader, linear("mlp.fc1", config.intermediate_size, hidden),
                                        linear("mlp.fc2", hidden, config.intermediate_size), tower.activation);
    parts.layers.push_back(std::move(next));
  }
  parts.final_norm = norm("final_layer_norm");
  return parts;
}

}  // namespace tributary
