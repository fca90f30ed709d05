// Patterns of one literal, or of one kind of character.
#pragma once

#include <bitset>
#include <string>
#include <utility>

#include "engine/prepare/text/pattern/pattern.h"
#include "engine/prepare/text/unicode/char_classes.h"

namespace tributary {

// The literal, which is not empty.
class LiteralPattern : public Pattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  std::optional<Match> Find(std::string_view text, size_t from) const override;

 private:
  std::string literal_;
};

// Characters of any of `classes`, or of `ascii`: runs of at least `least`, as long as they go (longest), or just one.
class CharRunPattern : public Pattern {
 public:
  struct Options {
    unsigned classes = 0;  // CharClasses
    std::bitset<128> ascii;
    size_t least = 1;
    bool longest = false;
  };
  explicit CharRunPattern(Options options) : options_(options) {}
  std::optional<Match> Find(std::string_view text, size_t from) const override;

 private:
  bool Holds(char32_t code) const {
    return (code < 128 && options_.ascii[code]) || (options_.classes != 0 && classes_.Is(code, options_.classes));
  }

  Options options_;
  CharClasses classes_;
};

// \w+|[^\w\s]+
class WordOrMarksPattern : public Pattern {
 public:
  std::optional<Match> Find(std::string_view text, size_t from) const override;

 private:
  CharClasses classes_;
};

}  // namespace tributary
