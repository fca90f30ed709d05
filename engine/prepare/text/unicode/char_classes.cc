#include "engine/prepare/text/unicode/char_classes.h"

#include <span>
#include <vector>

#include "engine/prepare/text/unicode/unicode_tables.h"

namespace tributary {
namespace {

std::vector<uint8_t> AllClasses() {
  std::vector<uint8_t> all(kCodePointCount);
  const auto add = [&](std::span<const unicode::Range> ranges, CharClasses::Class name) {
    for (const auto& range : ranges) {
      for (char32_t code = range.first; code <= range.last; ++code) all[code] |= name;
    }
  };
  add(unicode::Letters(), CharClasses::kLetter);
  add(unicode::Numbers(), CharClasses::kNumber);
  add(unicode::Whitespace(), CharClasses::kSpace);
  add(unicode::WordChars(), CharClasses::kWord);
  add(unicode::Numerics(), CharClasses::kNumeric);
  add(unicode::Punctuation(), CharClasses::kPunctuation);
  return all;
}

}  // namespace

CharClasses::CharClasses() : table_(AllClasses()) {}

}  // namespace tributary
