// A tokeniser from its tokenizer.json: the parts, put together.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "engine/prepare/text/added_tokens.h"
#include "engine/prepare/text/char_table.h"
#include "engine/prepare/text/model/word_piece_model.h"
#include "engine/prepare/text/read_post_processor.h"
#include "engine/prepare/text/tokenizer.h"

namespace tributary {

struct TokenizerParts {
  std::unique_ptr<Tokenizer> tokenizer;
  SpecialIds special;
  int32_t largest_id = -1;        // of the model's pieces and the special tokens
  int32_t largest_added_id = -1;  // of the added tokens
  bool lowercases = false;        // known to ignore case, as BertNormalizer does where it is told to
};

// `root` is the whole file. Throws LoadError with the part's name where one is not supported, and nlohmann's exceptions
// where the file is broken.
TokenizerParts FromTokenizerJson(const nlohmann::json& root);

// The BERT family's, from wherever its parts come.
TokenizerParts BertParts(const NormaliserOptions& normaliser, const WordPieceOptions& model,
                         std::vector<AddedToken> added, SpecialIds special);

}  // namespace tributary
