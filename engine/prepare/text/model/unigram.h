// Unigram language model (SentencePiece): the most likely way to cut a word into pieces.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/prepare/text/model/model.h"
#include "engine/prepare/text/model/piece_trie.h"
#include "engine/prepare/text/model/word_table.h"

namespace tributary {

struct UnigramOptions {
  std::vector<std::pair<std::string, double>> pieces;  // piece and logarithm of its probability; the place is the id
  int32_t unknown_id = 0;
  bool byte_fallback = false;  // unknown characters become the pieces <0x00> to <0xFF>, if there are all of them
};

// Viterbi's best path, ties and rounding as in the reference. Most words are pieces: of which of those the best path is
// the piece alone is found out at construction, and short ones are looked up. Unknown characters side by side become
// one token. Time: text times the longest piece. Thread-safety: const after construction. Source: Kudo, Subword
// Regularization (2018); encode_optimized in models/unigram/model.rs of Hugging Face tokenizers.
class Unigram : public TokenModel {
 public:
  explicit Unigram(const UnigramOptions& options);

  void Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const override;

 private:
  // The best path that ends at a byte.
  struct Step {
    double score;
    int32_t id;
    int32_t start;  // of its last piece; -1: no path ends here
  };

  void EncodeWord(std::string_view word, std::vector<Step>& steps, std::vector<int32_t>& ids) const;
  void FindWholeWords(const UnigramOptions& options);
  void AddUnknown(std::string_view text, std::vector<int32_t>& ids) const;

  PieceTrie pieces_;
  std::vector<double> scores_;
  double unknown_score_;
  int32_t unknown_id_;
  std::optional<std::array<int32_t, 256>> byte_ids_;
  WordTable whole_words_;
};

}  // namespace tributary
