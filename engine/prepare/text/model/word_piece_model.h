// WordPiece: a word cut greedily into the longest pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/prepare/text/model/model.h"
#include "engine/prepare/text/model/piece_trie.h"

namespace tributary {

struct WordPieceOptions {
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // distinct pieces
  std::string continuing_prefix = "##";
  size_t max_word_chars = 100;  // longer words are unknown
  int32_t unknown_id = 0;
};

// Thread-safety: const after construction. Source: Wu et al., Google's Neural Machine Translation System (2016),
// section 4.1; models/wordpiece in Hugging Face tokenizers.
class WordPieceModel : public TokenModel {
 public:
  explicit WordPieceModel(WordPieceOptions options);

  void Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const override;

  // Appends the ids of one word, not empty; unknown where it has more than max_word_chars() characters, however many
  // of them are there.
  void EncodeWord(std::string_view word, size_t chars, std::vector<int32_t>& ids) const;
  size_t max_word_chars() const { return max_word_chars_; }

 private:
  PieceTrie pieces_;
  PieceTrie::Node continuing_;  // where pieces that go on a word begin in pieces_; kNone: there are none
  size_t max_word_chars_;
  int32_t unknown_id_;
};

}  // namespace tributary
