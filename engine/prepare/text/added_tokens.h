// Tokens that are found in a text before, or right after, the normaliser sees it: special ones, and those added later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/prepare/text/model/piece_trie.h"
#include "engine/prepare/text/unicode/char_classes.h"

namespace tributary {

struct AddedToken {
  std::string content;  // what is looked for, not empty
  int32_t id = 0;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // ... and behind it
};

// The leftmost is found, of those at one place the longest. Time: text times the longest token. Thread-safety: const
// after construction. Source: find_matches in tokenizer/added_vocabulary.rs of Hugging Face tokenizers.
class AddedTokens {
 public:
  // Contents are distinct.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // A stretch of the text: a token, or what is between two.
  struct Part {
    static constexpr int32_t kText = -1;
    size_t begin;
    size_t end;
    int32_t id;  // kText: no token
  };
  // Reads one text, part by part.
  class Reader {
   public:
    Reader(const AddedTokens& tokens, std::string_view text) : tokens_(tokens), text_(text) {}
    std::optional<Part> Next();

   private:
    const AddedTokens& tokens_;
    std::string_view text_;
    size_t searched_ = 0;  // tokens are looked for from here on
    size_t told_ = 0;      // where the next part begins
    std::optional<Part> waiting_;
  };

 private:
  struct Match {
    size_t begin;
    size_t end;
    size_t index;  // in tokens_
  };

  std::optional<Match> Find(std::string_view text, size_t from) const;
  bool IsInWord(std::string_view text, const Match& match) const;
  Part Widen(std::string_view text, const Match& match, size_t told) const;

  std::vector<AddedToken> tokens_;
  PieceTrie trie_;
  std::array<bool, 256> begins_{};  // bytes that a token begins with
  std::optional<char> only_first_;  // the one there is, if it is one: memchr finds it
  CharClasses classes_;
};

}  // namespace tributary
