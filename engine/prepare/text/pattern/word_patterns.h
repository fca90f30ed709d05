// The regular expressions that cut text into words for byte-level BPE: GPT-2's, CLIP's and that of cl100k and Qwen.
#pragma once

#include "engine/prepare/text/pattern/pattern.h"
#include "engine/prepare/text/unicode/char_classes.h"

namespace tributary {

// '(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+, which leaves nothing out.
class Gpt2Pattern : public Pattern {
 public:
  std::optional<Match> Find(std::string_view text, size_t from) const override;

 private:
  CharClasses classes_;
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
// \s+(?!\S)|\s+, which leaves nothing out.
class Cl100kPattern : public Pattern {
 public:
  explicit Cl100kPattern(size_t max_digits) : max_digits_(max_digits) {}
  std::optional<Match> Find(std::string_view text, size_t from) const override;

 private:
  size_t max_digits_;
  CharClasses classes_;
};

// 's|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+, before it <|startoftext|>|<|endoftext|> where asked for:
// everything but white space.
class ClipPattern : public Pattern {
 public:
  explicit ClipPattern(bool special_tokens) : special_tokens_(special_tokens) {}
  std::optional<Match> Find(std::string_view text, size_t from) const override;

 private:
  bool special_tokens_;
  CharClasses classes_;
};

}  // namespace tributary
