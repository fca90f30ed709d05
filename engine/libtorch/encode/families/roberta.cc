// RoBERTa and XLM-RoBERTa: BERT's layers; positions count from the padding id on, as in fairseq, so that the position
// table's first rows are never used. Sources: Liu et al. 2019, https://arxiv.org/abs/1907.11692; Conneau et al. 2019,
// https://arxiv.org/abs/1911.02116; tensor names of transformers' RobertaModel and XLMRobertaModel.
#include "absl/strings/str_cat.h"
#include "engine/libtorch/encode/families/bert.h"
#include "engine/libtorch/encode/families/family_parts.h"

namespace tributary {

LoadedFamily LoadRoberta(const FamilyInput& input) {
  JsonFile& file = input.config;
  EncoderConfig config = ReadEncoderConfig(file);
  const int64_t token_types = file.Count("type_vocab_size", config.vocabulary_size, 2);
  AllowText(file, "position_embedding_type", {"absolute"});
  const Activation activation = ReadActivation(file, config, "hidden_act");
  const double padding = file.Number("pad_token_id", 1);
  const auto padding_id = static_cast<int64_t>(padding);
  if (padding < 0 || padding + 1 >= static_cast<double>(config.max_positions) ||
      static_cast<double>(padding_id) != padding) {
    file.Fail(absl::StrCat("pad_token_id must be a whole number from 0 to max_position_embeddings - 2, is ", padding));
  }
  if (!file.status().ok()) return file.status();

  ModuleReader reader(input.weights, "embeddings.word_embeddings.weight", input.type, input.device);
  PostNormParts parts = ReadBertParts(reader, config, activation, token_types, input);
  parts.padding_id = padding_id;
  config.max_positions -= padding_id + 1;
  return Finish<PostNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
