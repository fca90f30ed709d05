// A text model's folder as the hubs lay it out: what its JSON files say about the encoder, the pooling and the output.
// Torch-free; the weights are weights/safetensors.h, the tokenizer is prepare/text.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tributary {

// config.json of transformers' BertModel.
struct BertConfig {
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;  // divides hidden_size
  int64_t intermediate_size = 0;
  int64_t vocabulary_size = 0;
  int64_t max_positions = 0;  // tokens
  int64_t token_types = 0;
  double layer_norm_eps = 1e-12;
  std::string hidden_act;
};

enum class Pooling : uint8_t { kMean, kCls, kMax };

struct TextModelFolder {
  std::string transformer_folder;  // where config.json, weights and tokenizer are
  BertConfig bert;
  Pooling pooling = Pooling::kMean;
  bool normalise = false;  // the model's own output is L2-normalised
};

// Reads modules.json, the transformer's config.json and the pooling module's config.json (the tokenizer's files are
// read by prepare/text). As sentence-transformers does, a folder without modules.json is a transformer with mean
// pooling and no normalising.
// Errors: NOT_FOUND / INVALID_ARGUMENT naming the file and the key; a model that would be run differently from its
//   reference (another architecture, a module we do not have) is an error, never ignored.
absl::StatusOr<TextModelFolder> ReadTextModelFolder(const std::string& folder);

}  // namespace tributary
