// BERT. Source: Devlin et al. 2018, https://arxiv.org/abs/1810.04805; tensor names of transformers' BertModel.
#include "engine/libtorch/encode/families/bert.h"

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/family_parts.h"

namespace tributary {

PostNormParts ReadBertParts(ModuleReader& reader, const EncoderConfig& config, Activation activation,
                            int64_t token_types, const FamilyInput& input, const BertLayerNames& names) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  PostNormParts parts;
  parts.type = TorchType(input.type);
  parts.words = reader.Table("embeddings.word_embeddings.weight", config.vocabulary_size, hidden);
  parts.positions = PositionTable(reader, config, token_types, input.device);
  parts.embedding_norm =
      reader.LayerNorm("embeddings.LayerNorm", hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat(names.layers, i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in) {
      return reader.ReadLinear(layer + name, out, in, /*bias=*/true);
    };
    const auto norm = [&](const char* name) {
      return reader.LayerNorm(layer + name, hidden, config.norm_epsilon, /*bias=*/true, /*f32_input=*/false);
    };
    parts.layers.push_back({.attention = {.qkv = reader.Place(reader.Join({linear(names.query, hidden, hidden),
                                                                           linear(names.key, hidden, hidden),
                                                                           linear(names.value, hidden, hidden)})),
                                          .output = reader.Place(linear(names.attention_output, hidden, hidden)),
                                          .options = WholeTextAttention(config),
                                          .head_norm = {}},
                            .attention_norm = norm(names.attention_norm),
                            .feed_forward = {.activation = activation,
                                             .gate = {},
                                             .up = reader.Place(linear(names.up, inner, hidden)),
                                             .down = reader.Place(linear(names.down, hidden, inner))},
                            .output_norm = norm(names.output_norm)});
  }
  return parts;
}

LoadedFamily LoadBert(const FamilyInput& input) {
  JsonFile& file = input.config;
  const EncoderConfig config = ReadEncoderConfig(file);
  const int64_t token_types = file.Count("type_vocab_size", config.vocabulary_size, 2);
  AllowText(file, "position_embedding_type", {"absolute"});
  const Activation activation = ReadActivation(file, config, "hidden_act");
  if (!file.status().ok()) return file.status();

  ModuleReader reader(input.weights, "embeddings.word_embeddings.weight", input.type, input.device);
  return Finish<PostNormEncoder>(config, reader, ReadBertParts(reader, config, activation, token_types, input));
}

}  // namespace tributary
