// Reads what a hub folder says about its tokeniser. The door between other people's files and word_piece.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "engine/prepare/text/word_piece.h"

namespace tributary {

struct TokenizerFiles {
  WordPieceModel model;
  size_t max_tokens = 0;       // special tokens included
  size_t vocabulary_size = 0;  // every id is below it
};

// Reads tokenizer.json, or vocab.txt with tokenizer_config.json where there is none. The length limit is
// sentence_bert_config.json's max_seq_length, else tokenizer_config.json's model_max_length, and never more than
// config.json's max_position_embeddings. What tokenizer.json says about truncation and padding is not used: the
// reference (sentence-transformers) overrides it. Errors: NOT_FOUND a file is missing; FAILED_PRECONDITION a file is
// broken, or names a part that is not supported. The
//   message names file and part.
absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& hub_folder);

}  // namespace tributary
