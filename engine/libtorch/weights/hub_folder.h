// A text model's folder as the hubs lay it out: what the JSON files of sentence-transformers say about the modules
// after the encoder. Torch-free; the encoder's own config.json is read by encode/text_families, the tokenizer by
// prepare/text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

// kMeanSqrtLen: the sum over the square root of the length. kWeightedMean: token i counts i + 1 times.
enum class Pooling : uint8_t { kMean, kCls, kMax, kMeanSqrtLen, kWeightedMean, kLastToken };

// A linear layer over the pooled vector.
struct DenseModule {
  std::string folder;  // where its weights are
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = true;
  enum class Activation : uint8_t { kIdentity, kTanh, kRelu, kGelu, kSigmoid, kSilu } activation = Activation::kTanh;
};

struct TextModelFolder {
  std::string transformer_folder;  // where config.json, weights and tokenizer are
  bool has_pooling = false;        // modules.json says it; else a model that brings its own (CLIP) uses that
  std::vector<Pooling> pooling{Pooling::kMean};  // several: their vectors after each other
  std::optional<int64_t> pooled_size;            // of one token's vector, where the pooling module says it
  std::vector<DenseModule> dense;                // in order
  bool normalise = false;                        // the model's own output is L2-normalised
  std::optional<int64_t> max_seq_length;         // tokens, special ones included
  std::map<std::string, std::string> prompts;    // put before a text, by name
  std::string default_prompt;                    // a name of `prompts`; empty: none
  std::vector<int64_t> matryoshka_dimensions;    // sizes of shorter vectors, as config.json lists them; mostly none
};

// Reads modules.json, the modules' config.json, sentence_bert_config.json and config_sentence_transformers.json
// (the tokenizer's files are read by prepare/text). As sentence-transformers does, a folder without modules.json is a
// transformer with mean pooling and no normalising. Errors: NOT_FOUND / INVALID_ARGUMENT naming the file and the key; a
// model that would be run differently from its
//   reference (a module we do not have, another order, a prompt that the pooling leaves out) is an error, never
//   ignored.
absl::StatusOr<TextModelFolder> ReadTextModelFolder(const std::string& folder);

}  // namespace tributary
