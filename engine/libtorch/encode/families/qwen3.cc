// Qwen3 as an encoder (Qwen3-Embedding): causal, fewer heads of keys and values, queries and keys normed by head.
// Source: Zhang et al. 2025, https://arxiv.org/abs/2506.05176; tensor names of transformers' Qwen3Model.
#include "engine/libtorch/encode/families/decoder_parts.h"
#include "engine/libtorch/encode/families/family_parts.h"

namespace tributary {

LoadedFamily LoadQwen3(const FamilyInput& input) {
  JsonFile& file = input.config;
  const EncoderConfig config = ReadEncoderConfig(file, {.key_value_heads = "num_key_value_heads",
                                                        .head_size = "head_dim",
                                                        .norm_epsilon = "rms_norm_eps",
                                                        .default_norm_epsilon = 1e-6,
                                                        .default_activation = "silu"});
  DecoderStyle style;
  style.projection_bias = file.Flag("attention_bias", false);
  style.activation = ReadActivation(file, config, "hidden_act");
  const RotaryConfig rotary = ReadRotaryConfig(file, config, {});
  style.rotaries = {rotary, rotary};
  AllowFlag(file, "is_causal", true);
  style.whole = WholeTextAttention(config);
  style.whole.after = 0;
  style.window = style.whole;
  style.sliding.assign(static_cast<size_t>(config.layers), false);
  if (file.Flag("use_sliding_window", false)) {
    style.window.before = file.Count("sliding_window", int64_t{1} << 24, 4096) - 1;
    style.sliding = ReadSlidingLayers(
        file, config.layers, [](int64_t layer, int64_t first) { return layer >= first; },
        file.Count("max_window_layers", 1024, 28));
  }
  if (!file.status().ok()) return file.status();
  return LoadDecoder(config, style, input);
}

}  // namespace tributary
