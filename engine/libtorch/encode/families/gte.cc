// GTE of 2024 ("gte" in transformers, "new" on the hub): post-norm layers with rotary positions and a gated
// feed-forward. Source: Zhang et al. 2024, https://arxiv.org/abs/2407.19669; tensor names of the models on the hub,
// which transformers' GteModel reads and writes.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/post_norm_encoder.h"

namespace tributary {

LoadedFamily LoadGte(const FamilyInput& input) {
  JsonFile& file = input.config;
  const bool hub = file.Text("model_type", "") == "new";
  const EncoderConfig config = ReadEncoderConfig(file);
  const double token_types = file.Number("type_vocab_size", 1);
  if (token_types < 0 || token_types > static_cast<double>(config.vocabulary_size) ||
      token_types != std::floor(token_types)) {
    file.Fail("type_vocab_size must be a whole number from 0 to vocab_size");
  }
  const RotaryConfig rotary =
      ReadRotaryConfig(file, config, {.default_theta = hub ? 10000.0 : 160000.0, .allow_ntk = hub});
  AllowText(file, "position_embedding_type", {"rope"});
  AllowText(file, "layer_norm_type", {"layer_norm"});
  AllowFlag(file, "pack_qkv", true);
  AllowFlag(file, "logn_attention_scale", false);
  const Activation activation = ReadActivation(file, config, "hidden_act");
  if (!file.status().ok()) return file.status();

  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  ModuleReader reader(input.weights, "embeddings.word_embeddings.weight", input.type, input.device);
  PostNormParts parts;
  parts.type = TorchType(input.type);
  parts.words = reader.Table("embeddings.word_embeddings.weight", config.vocabulary_size, hidden);
  if (token_types >= 1) {
    parts.token_type = TokenTypeRow(reader, config, static_cast<int64_t>(token_types), input.device);
  }
  parts.embedding_norm =
      reader.LayerNorm("embeddings.LayerNorm", hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  parts.rotary = Rotary(rotary, config.head_size, input.device);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("encoder.layer.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in, bool bias) {
      return reader.ReadLinear(layer + name, out, in, bias);
    };
    const auto norm = [&](const char* name) {
      return reader.LayerNorm(layer + name, hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/false);
    };
    const LinearWeights up_gate = linear("mlp.up_gate_proj", 2 * inner, hidden, /*bias=*/false);
    parts.layers.push_back(
        {.attention = {.qkv = reader.Place(linear("attention.qkv_proj", config.qkv_width(), hidden, /*bias=*/true)),
                       .output = reader.Place(linear("attention.o_proj", hidden, config.query_width(), /*bias=*/true)),
                       .options = WholeTextAttention(config),
                       .head_norm = {}},
         .attention_norm = norm("attn_ln"),
         .feed_forward = {.activation = activation,
                          .gate = reader.Place(reader.Rows(up_gate, inner, inner)),
                          .up = reader.Place(reader.Rows(up_gate, 0, inner)),
                          .down = reader.Place(linear("mlp.down_proj", hidden, inner, /*bias=*/true))},
         .output_norm = norm("mlp_ln")});
  }
  return Finish<PostNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
