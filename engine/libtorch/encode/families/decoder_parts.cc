#include "engine/libtorch/encode/families/decoder_parts.h"

#include <ATen/ops/cat.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/pre_norm_encoder.h"

namespace tributary {
namespace {

// Queries and keys have a gain each, [head_size]: one norm over both, gain [heads + key_value_heads, head_size].
Norm HeadNorm(ModuleReader& reader, const std::string& attention, const EncoderConfig& config,
              const DecoderStyle& style) {
  Norm query = reader.RmsNorm(attention + "q_norm", config.head_size, config.norm_epsilon, style.norm_offset);
  const Norm key = reader.RmsNorm(attention + "k_norm", config.head_size, config.norm_epsilon, style.norm_offset);
  if (!reader.status().ok()) return {};
  query.gain = at::cat({query.gain.expand({config.heads, config.head_size}),
                        key.gain.expand({config.key_value_heads, config.head_size})});
  return query;
}

}  // namespace

LoadedFamily LoadDecoder(const EncoderConfig& config, const DecoderStyle& style, const FamilyInput& input) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t shared_width = config.key_value_heads * config.head_size;
  ModuleReader reader(input.weights, "embed_tokens.weight", input.type, input.device);
  const auto norm = [&](const std::string& name) {
    return reader.RmsNorm(name, hidden, config.norm_epsilon, style.norm_offset);
  };
  PreNormParts parts;
  parts.type = TorchType(input.type);
  parts.words = reader.Table("embed_tokens.weight", config.vocabulary_size, hidden);
  parts.embedding_scale = style.embedding_scale;
  for (const RotaryConfig& rotary : style.rotaries) parts.rotaries.emplace_back(rotary, config.head_size, input.device);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("layers.", i, ".");
    const auto projection = [&](const char* name, int64_t out, int64_t in) {
      return reader.ReadLinear(absl::StrCat(layer, "self_attn.", name), out, in, style.projection_bias);
    };
    const auto linear = [&](const char* name, int64_t out, int64_t in) {
      return reader.Place(reader.ReadLinear(absl::StrCat(layer, "mlp.", name), out, in, /*bias=*/false));
    };
    const bool sliding = style.sliding[static_cast<size_t>(i)];
    PreNormLayer next;
    next.attention_norm = norm(layer + "input_layernorm");
    next.attention = {.qkv = reader.Place(reader.Join({projection("q_proj", config.query_width(), hidden),
                                                       projection("k_proj", shared_width, hidden),
                                                       projection("v_proj", shared_width, hidden)})),
                      .output = reader.Place(projection("o_proj", hidden, config.query_width())),
                      .options = sliding ? style.window : style.whole,
                      .head_norm = HeadNorm(reader, layer + "self_attn.", config, style)};
    if (style.norms_after) {
      next.after_attention = norm(layer + "post_attention_layernorm");
      next.feed_forward_norm = norm(layer + "pre_feedforward_layernorm");
      next.after_feed_forward = norm(layer + "post_feedforward_layernorm");
    } else {
      next.feed_forward_norm = norm(layer + "post_attention_layernorm");
    }
    next.feed_forward = {.activation = style.activation,
                         .gate = linear("gate_proj", inner, hidden),
                         .up = linear("up_proj", inner, hidden),
                         .down = linear("down_proj", hidden, inner)};
    next.rotary = sliding ? 1 : 0;
    parts.layers.push_back(std::move(next));
  }
  parts.final_norm = norm("norm");
  return Finish<PreNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
