// Which kind of character a code point is, as the reference's regular expressions and white space see it.
#pragma once

#include <cstdint>

#include "engine/prepare/text/unicode/code_point_table.h"

namespace tributary {

// Thread-safety: const after construction. Built by each component that needs it (about a millisecond).
class CharClasses {
 public:
  enum Class : uint8_t {
    kLetter = 1,        // \p{L} of Oniguruma
    kNumber = 2,        // \p{N} of Oniguruma
    kSpace = 4,         // \s, and Rust's char::is_whitespace: the same set
    kWord = 8,          // \w of Rust's regex
    kNumeric = 16,      // Rust's char::is_numeric
    kPunctuation = 32,  // of BertPreTokenizer and Punctuation
  };

  CharClasses();

  // Any of `classes`, which are or-ed together.
  bool Is(char32_t code, unsigned classes) const { return (table_[code] & classes) != 0; }
  uint8_t Of(char32_t code) const { return table_[code]; }

 private:
  CodePointTable<uint8_t> table_;
};

}  // namespace tributary
