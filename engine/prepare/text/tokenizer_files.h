// Reads what a hub folder says about its tokeniser. The door between other people's files and the tokenisers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/prepare/text/read_post_processor.h"
#include "engine/prepare/text/tokenizer.h"

namespace tributary {

struct TokenizerFiles {
  std::unique_ptr<Tokenizer> tokenizer;
  SpecialIds special;
  size_t max_tokens = 0;         // special tokens included
  size_t vocabulary_size = 0;    // rows of the embedding table
  bool has_rowless_ids = false;  // some added token's id is not below vocabulary_size
  // Texts get pad_id behind them up to this length: a part of the input of models that were trained so (SigLIP). 0:
  // none.
  size_t padded_length = 0;
  int32_t pad_id = 0;
};

// Reads tokenizer.json, or vocab.txt with tokenizer_config.json where there is none. The length limit is
// sentence_bert_config.json's max_seq_length, else tokenizer_config.json's model_max_length, and never more than the
// positions config.json has (max_position_embeddings, in text_config where there is one, less those RoBERTa's family
// keeps for padding; CLIP's and SigLIP's have a default of their own). What tokenizer.json says about truncation and
// padding is not used: the reference (sentence-transformers) overrides it. Errors: NOT_FOUND a file is missing;
// FAILED_PRECONDITION a file is broken, or names a part that is not supported. The message names file and part.
absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& hub_folder);

}  // namespace tributary
