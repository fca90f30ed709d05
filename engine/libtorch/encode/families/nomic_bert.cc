// NomicBERT: post-norm layers with rotary positions and a gated feed-forward, without biases in the products.
// Source: Nussbaum et al. 2024, https://arxiv.org/abs/2402.01613; tensor names of the models on the hub, which
// transformers' NomicBertModel reads and writes. Their config.json comes in two spellings: theirs (GPT-2's keys) and
// transformers'.
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/post_norm_encoder.h"

namespace tributary {
namespace {

EncoderConfig ReadHubConfig(JsonFile& file) {
  EncoderConfig config = ReadEncoderConfig(file, {.hidden_size = "n_embd",
                                                  .layers = "n_layer",
                                                  .heads = "n_head",
                                                  .intermediate_size = "n_inner",
                                                  .max_positions = "n_positions",
                                                  .norm_epsilon = "layer_norm_epsilon",
                                                  .default_norm_epsilon = 1e-5,
                                                  .activation = "activation_function",
                                                  .default_activation = "gelu_new"});
  if (config.activation != "swiglu") {
    file.Fail(absl::StrCat("activation_function must be swiglu, is '", config.activation, "'"));
  }
  config.activation = "silu";
  // The table is padded; a text never has the ids of the rows added.
  const int64_t multiple = file.Count("pad_vocab_size_multiple", 1 << 20, 1);
  config.vocabulary_size = (config.vocabulary_size + multiple - 1) / multiple * multiple;
  for (const char* flag : {"prenorm", "parallel_block", "use_rms_norm", "causal", "rotary_emb_interleaved",
                           "scale_attn_by_inverse_layer_idx"}) {
    AllowFlag(file, flag, false);
  }
  for (const char* flag : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"}) {
    if (file.Flag(flag, true)) file.Fail(absl::StrCat(flag, " must be false"));
  }
  AllowFlag(file, "scale_attn_weights", true);
  if (file.Number("rotary_emb_fraction", 0) != 1) file.Fail("rotary_emb_fraction must be 1");
  if (!file.Has("rotary_emb_base")) file.Fail("rotary_emb_base is missing");
  for (const char* key : {"rotary_emb_scale_base", "rotary_scaling_factor", "moe_every_n_layers"}) RefuseKey(file, key);
  return config;
}

}  // namespace

LoadedFamily LoadNomicBert(const FamilyInput& input) {
  JsonFile& file = input.config;
  const bool hub = file.Has("n_embd");
  const EncoderConfig config =
      hub ? ReadHubConfig(file) : ReadEncoderConfig(file, {.head_size = "head_dim", .default_activation = "silu"});
  const int64_t token_types = file.Count("type_vocab_size", config.vocabulary_size, 2);
  const RotaryConfig rotary = ReadRotaryConfig(
      file, config, {.theta = hub ? "rotary_emb_base" : "rope_theta", .default_theta = hub ? 10000.0 : 1000.0});
  const Activation activation = ReadActivation(file, config, "hidden_act");
  if (!file.status().ok()) return file.status();

  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  ModuleReader reader(input.weights, "embeddings.word_embeddings.weight", input.type, input.device);
  PostNormParts parts;
  parts.type = TorchType(input.type);
  parts.words = reader.Table("embeddings.word_embeddings.weight", config.vocabulary_size, hidden);
  parts.token_type = TokenTypeRow(reader, config, token_types, input.device);
  parts.embedding_norm = reader.LayerNorm("emb_ln", hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  parts.rotary = Rotary(rotary, config.head_size, input.device);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("encoder.layers.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in) {
      return reader.Place(reader.ReadLinear(layer + name, out, in, /*bias=*/false));
    };
    const auto norm = [&](const char* name) {
      return reader.LayerNorm(layer + name, hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/false);
    };
    parts.layers.push_back({.attention = {.qkv = linear("attn.Wqkv", config.qkv_width(), hidden),
                                          .output = linear("attn.out_proj", hidden, config.query_width()),
                                          .options = WholeTextAttention(config),
                                          .head_norm = {}},
                            .attention_norm = norm("norm1"),
                            .feed_forward = {.activation = activation,
                                             .gate = linear("mlp.fc12", inner, hidden),
                                             .up = linear("mlp.fc11", inner, hidden),
                                             .down = linear("mlp.fc2", hidden, inner)},
                            .output_norm = norm("norm2")});
  }
  return Finish<PostNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
