// ModernBERT: pre-norm layers, most of which see a window of the text only, with a rotation of their own; gated
// feed-forward. Source: Warner et al. 2024, https://arxiv.org/abs/2412.13663; tensor names of transformers'
// ModernBertModel.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/pre_norm_encoder.h"

namespace tributary {

LoadedFamily LoadModernBert(const FamilyInput& input) {
  JsonFile& file = input.config;
  // position_embedding_type says "absolute" in the first models' files: it is not used there either.
  const EncoderConfig config = ReadEncoderConfig(
      file, {.norm_epsilon = "norm_eps", .default_norm_epsilon = 1e-5, .activation = "hidden_activation"});
  const bool norm_bias = file.Flag("norm_bias", false);
  const bool attention_bias = file.Flag("attention_bias", false);
  const bool inner_bias = file.Flag("mlp_bias", false);
  const int64_t window = file.Count("local_attention", int64_t{1} << 24, 128);  // both sides together
  const std::vector<bool> sliding = ReadSlidingLayers(
      file, config.layers, [](int64_t layer, int64_t period) { return layer % period != 0; },
      file.Count("global_attn_every_n_layers", 1024, 3));
  const RotaryConfig whole_rotary = ReadRotaryConfig(
      file, config, {.theta = "global_rope_theta", .default_theta = 160000, .layer_type = "full_attention"});
  const RotaryConfig window_rotary = ReadRotaryConfig(
      file, config, {.theta = "local_rope_theta", .default_theta = 10000, .layer_type = "sliding_attention"});
  const Activation activation = ReadActivation(file, config, "hidden_activation");
  if (!file.status().ok()) return file.status();

  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  ModuleReader reader(input.weights, "embeddings.tok_embeddings.weight", input.type, input.device);
  const auto norm = [&](const std::string& name) {
    return reader.LayerNorm(name, hidden, config.norm_epsilon, norm_bias, /*f32_input=*/true);
  };
  PreNormParts parts;
  parts.type = TorchType(input.type);
  parts.words = reader.Table("embeddings.tok_embeddings.weight", config.vocabulary_size, hidden);
  parts.embedding_norm = norm("embeddings.norm");
  parts.rotaries = {Rotary(whole_rotary, config.head_size, input.device),
                    Rotary(window_rotary, config.head_size, input.device)};
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("layers.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in, bool bias) {
      return reader.ReadLinear(layer + name, out, in, bias);
    };
    const bool in_window = sliding[static_cast<size_t>(i)];
    AttentionOptions options = WholeTextAttention(config);
    if (in_window) options.before = options.after = window / 2;
    const LinearWeights gate_up = linear("mlp.Wi", 2 * inner, hidden, inner_bias);
    PreNormLayer next;
    if (i > 0) next.attention_norm = norm(layer + "attn_norm");  // the first layer's input is normed already
    next.attention = {.qkv = reader.Place(linear("attn.Wqkv", config.qkv_width(), hidden, attention_bias)),
                      .output = reader.Place(linear("attn.Wo", hidden, hidden, attention_bias)),
                      .options = options,
                      .head_norm = {}};
    next.feed_forward_norm = norm(layer + "mlp_norm");
    next.feed_forward = {.activation = activation,
                         .gate = reader.Place(reader.Rows(gate_up, 0, inner)),
                         .up = reader.Place(reader.Rows(gate_up, inner, inner)),
                         .down = reader.Place(linear("mlp.Wo", hidden, inner, inner_bias))};
    next.rotary = in_window ? 1 : 0;
    parts.layers.push_back(std::move(next));
  }
  parts.final_norm = norm("final_norm");
  return Finish<PreNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
