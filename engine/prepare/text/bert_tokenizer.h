// Text to token ids for the BERT family: normaliser, word split and WordPiece in one pass over the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/prepare/text/added_tokens.h"
#include "engine/prepare/text/char_table.h"
#include "engine/prepare/text/model/word_piece_model.h"
#include "engine/prepare/text/tokenizer.h"

namespace tributary {

// What pipeline_tokenizer does step by step for BertNormalizer, BertPreTokenizer and WordPiece, without a normalised
// copy of the text: code points go through the CharTable into the word at hand. Added tokens are found in the raw text.
// Invariants: time linear in the text (a word keeps at most max_word_chars), memory linear in the ids. Thread-safety:
// const after construction; state of a call lives on its stack.
class BertTokenizer : public Tokenizer {
 public:
  BertTokenizer(const NormaliserOptions& normaliser, WordPieceOptions model, std::vector<AddedToken> added);

  void Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const override;

 private:
  class Segment;

  CharTable table_;
  WordPieceModel model_;
  AddedTokens added_;
};

}  // namespace tributary
