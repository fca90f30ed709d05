// Gemma 3's text model, and EmbeddingGemma, which is it without the causal mask: norms before and after each half of a
// layer, windows with a rotation of their own, scaled embeddings.
// Sources: Gemma Team 2025, https://arxiv.org/abs/2503.19786; Vera et al. 2025, https://arxiv.org/abs/2509.20354;
// tensor names of transformers' Gemma3TextModel.
#include <cmath>

#include "engine/libtorch/encode/families/decoder_parts.h"
#include "engine/libtorch/encode/families/family_parts.h"

namespace tributary {

LoadedFamily LoadGemma3(const FamilyInput& input) {
  JsonFile& file = input.config;
  const EncoderConfig config = ReadEncoderConfig(file, {.key_value_heads = "num_key_value_heads",
                                                        .head_size = "head_dim",
                                                        .norm_epsilon = "rms_norm_eps",
                                                        .default_norm_epsilon = 1e-6,
                                                        .activation = "hidden_activation",
                                                        .default_activation = "gelu_pytorch_tanh"});
  DecoderStyle style;
  style.projection_bias = file.Flag("attention_bias", false);
  style.activation = ReadActivation(file, config, "hidden_activation");
  style.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  style.norm_offset = 1;
  style.norms_after = true;
  style.rotaries = {
      ReadRotaryConfig(file, config, {.default_theta = 1e6, .layer_type = "full_attention"}),
      ReadRotaryConfig(file, config, {.theta = "rope_local_base_freq", .layer_type = "sliding_attention"})};
  AllowFlag(file, "is_causal", true);

  style.whole = WholeTextAttention(config);
  const double scalar = file.Number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) file.Fail("query_pre_attn_scalar must be above 0");
  style.whole.scale = 1 / std::sqrt(scalar);
  style.window = style.whole;
  const int64_t window = file.Count("sliding_window", int64_t{1} << 24, 4096);
  if (file.Flag("use_bidirectional_attention", false)) {
    style.window.before = style.window.after = window / 2;
  } else {
    style.whole.after = style.window.after = 0;
    style.window.before = window - 1;
  }
  style.sliding = ReadSlidingLayers(
      file, config.layers, [](int64_t layer, int64_t period) { return (layer + 1) % period != 0; },
      file.Count("sliding_window_pattern", 1024, 6));
  if (!file.status().ok()) return file.status();
  return LoadDecoder(config, style, input);
}

}  // namespace tributary
