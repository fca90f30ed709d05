// DistilBERT: BERT without token types, under other names.
// Source: Sanh et al. 2019, https://arxiv.org/abs/1910.01108; tensor names of transformers' DistilBertModel.
#include "engine/libtorch/encode/families/bert.h"
#include "engine/libtorch/encode/families/family_parts.h"

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

  ModuleReader reader(input.weights, "embeddings.word_embeddings.weight", input.type, input.device);
  PostNormParts parts = ReadBertParts(reader, config, activation, /*token_types=*/0, input,
                                      {.layers = "transformer.layer.",
                                       .query = "attention.q_lin",
                                       .key = "attention.k_lin",
                                       .value = "attention.v_lin",
                                       .attention_output = "attention.out_lin",
                                       .attention_norm = "sa_layer_norm",
                                       .up = "ffn.lin1",
                                       .down = "ffn.lin2",
                                       .output_norm = "output_layer_norm"});
  return Finish<PostNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
