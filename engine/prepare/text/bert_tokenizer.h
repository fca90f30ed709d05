// Text to token ids for the BERT family: normaliser, word split and WordPiece in one pass over the text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/prepare/text/added_tokens.h"
#include "engine/prepare/text/char_table.h"
#include "engine/prepare/text/model/word_piece_model.h"
#include "engine/prepare/text/model/word_table.h"
#include "engine/prepare/text/tokenizer.h"

namespace tributary {

// What pipeline_tokenizer does step by step for BertNormalizer, BertPreTokenizer and WordPiece, without a normalised
// copy of the text. Words of ASCII, most of most texts, are folded sixteen bytes at a time and looked up whole; what is
// no piece, and all other words, go byte by byte into the model, code points through the CharTable. Added tokens are
// found in the raw text. Invariants: time linear in the text, memory linear in the ids, no allocation per word.
// Thread-safety: const after construction; state of a call lives on its stack.
class BertTokenizer : public Tokenizer {
 public:
  BertTokenizer(const NormaliserOptions& normaliser, const WordPieceOptions& model, std::vector<AddedToken> added);

  void Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const override;

 private:
  class Segment;

  // What an ASCII character is, alone. Those up to kSign end a word.
  struct Alone {
    enum Kind : int32_t { kSpace, kSign, kWordChar, kOther };
    Kind kind = kOther;  // kWordChar: letter or digit
    int32_t id = 0;      // of the sign as a word
  };

  CharTable table_;
  WordPieceModel model_;
  uint8_t fold_;
  WordTable words_;  // whole words
  std::array<Alone, 128> alone_;
  AddedTokens added_;
};

}  // namespace tributary
