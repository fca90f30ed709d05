// Text to token ids, as Hugging Face tokenizers does it for the BERT family. Called by text_preparer; fed by
// tokenizer_files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/prepare/text/char_table.h"
#include "engine/prepare/text/piece_trie.h"

namespace tributary {

// What a tokenizer.json (or a vocab.txt and a tokenizer_config.json) says.
struct WordPieceModel {
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // distinct pieces
  std::vector<std::pair<std::string, int32_t>> added;       // found in the raw text, before anything else looks at it
  NormaliserOptions normaliser;
  std::string continuing_prefix = "##";
  size_t max_word_chars = 100;  // longer words are unknown
  int32_t unknown_id = 0;
  std::vector<int32_t> prefix_ids;  // [CLS]
  std::vector<int32_t> suffix_ids;  // [SEP]
};

// One pass over the text, no normalised copy of it: code points go through the CharTable into the word at hand, and
// each finished word is cut greedily into the longest pieces. Invariants: time linear in the text (a word keeps at most
// max_word_chars), memory linear in the ids. Thread-safety: const after construction; state of a call lives on its
// stack. Source: Wu et al., Google's Neural Machine Translation System (2016), section 4.1; models/wordpiece in
// tokenizers.
class WordPieceTokenizer {
 public:
  explicit WordPieceTokenizer(WordPieceModel model);

  // Appends the ids of `text` (well-formed UTF-8), without special tokens around them. May stop once more than `enough`
  // were appended.
  void Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const;

 private:
  class Segment;
  struct Found {
    size_t position;
    PieceTrie::Match match;
  };

  std::optional<Found> FindAdded(std::string_view text, size_t from) const;

  CharTable table_;
  PieceTrie pieces_;
  PieceTrie::Node continuing_;  // where pieces that go on a word begin in pieces_; kNone: there are none
  PieceTrie added_;
  std::string added_first_bytes_;  // what an added token can begin with
  size_t max_word_chars_;
  int32_t unknown_id_;
};

}  // namespace tributary
