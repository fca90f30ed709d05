// DistilBERT: BERT without token types, under other names.
// Source: Sanh et al. 2019, https://arxiv.org/abs/1910.01108; tensor names of transformers' DistilBertModel.
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/family_parts.h"
#include "engine/libtorch/encode/post_norm_encoder.h"

namespace tributary {

LoadedFamily LoadDistilBert(const FamilyInput& input) {
  JsonFile& file = input.config;
  // sinusoidal_pos_embds only says how the position table was begun with: the table itself is in the file.
  const EncoderConfig config = ReadEncoderConfig(file, {.hidden_size = "dim",
                                                        .layers = "n_layers",
                                                        .heads = "n_heads",
                                                        .intermediate_size = "hidden_dim",
                                                        .norm_epsilon = nullptr,
                                                        .activation = "activation"});
  const Activation activation = ReadActivation(file, config, "activation");
  if (!file.status().ok()) return file.status();

  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  ModuleReader reader(input.weights, "embeddings.word_embeddings.weight", input.type, input.device);
  PostNormParts parts;
  parts.type = TorchType(input.type);
  parts.words = reader.Table("embeddings.word_embeddings.weight", config.vocabulary_size, hidden);
  parts.positions = PositionTable(reader, config, /*token_types=*/0, input.device);
  parts.embedding_norm =
      reader.LayerNorm("embeddings.LayerNorm", hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("transformer.layer.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in) {
      return reader.ReadLinear(layer + name, out, in, /*bias=*/true);
    };
    const auto norm = [&](const char* name) {
      return reader.LayerNorm(layer + name, hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/false);
    };
    parts.layers.push_back({.attention = {.qkv = reader.Place(reader.Join({linear("attention.q_lin", hidden, hidden),
                                                                           linear("attention.k_lin", hidden, hidden),
                                                                           linear("attention.v_lin", hidden, hidden)})),
                                          .output = reader.Place(linear("attention.out_lin", hidden, hidden)),
                                          .options = WholeTextAttention(config),
                                          .head_norm = {}},
                            .attention_norm = norm("sa_layer_norm"),
                            .feed_forward = {.activation = activation,
                                             .gate = {},
                                             .up = reader.Place(linear("ffn.lin1", inner, hidden)),
                                             .down = reader.Place(linear("ffn.lin2", hidden, inner))},
                            .output_norm = norm("output_layer_norm")});
  }
  return Finish<PostNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
