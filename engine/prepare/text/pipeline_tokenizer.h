// Text to token ids step by step, as a tokenizer.json puts the steps together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/prepare/text/added_tokens.h"
#include "engine/prepare/text/model/model.h"
#include "engine/prepare/text/normalise/normaliser.h"
#include "engine/prepare/text/split/splitter.h"
#include "engine/prepare/text/tokenizer.h"

namespace tributary {

// Added tokens are found in the raw text; what is between them is normalised; those that want it are found in that;
// what is left is split into words, and the model gives their ids. Thread-safety: const after construction; state of a
// call lives on its stack.
class PipelineTokenizer : public Tokenizer {
 public:
  struct Parts {
    std::vector<AddedToken> raw_tokens;         // found before the normaliser
    std::unique_ptr<Normaliser> normaliser;     // null: none
    std::vector<AddedToken> normalised_tokens;  // found behind it, contents already normalised
    std::unique_ptr<Splitter> splitter;         // null: none
    std::unique_ptr<TokenModel> model;
  };
  explicit PipelineTokenizer(Parts parts);

  void Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const override;

 private:
  AddedTokens raw_tokens_;
  std::unique_ptr<Normaliser> normaliser_;
  AddedTokens normalised_tokens_;
  std::unique_ptr<Splitter> splitter_;
  std::unique_ptr<TokenModel> model_;
};

}  // namespace tributary
