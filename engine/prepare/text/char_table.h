// What becomes of each code point on its way into words: the whole BERT normaliser and the word split, folded into one
// look-up. Used by bert_tokenizer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/prepare/text/unicode/code_point_table.h"

namespace tributary {

// The switches of Hugging Face's BertNormalizer.
struct NormaliserOptions {
  bool clean_text = true;            // control characters removed, every white space a space
  bool handle_chinese_chars = true;  // ideographs are words of their own
  bool strip_accents = true;         // canonical decomposition, then non-spacing marks removed
  bool lowercase = true;
};

// Built once per tokeniser, read by every thread.
// Thread-safety: const after construction.
// Source: tokenizers/src/normalizers/bert.rs and pre_tokenizers/bert.rs of Hugging Face tokenizers; the steps there run
//   over the whole text one after the other. They fold into a map of single code points because no step looks at
//   neighbours, except canonical order (kReorder).
class CharTable {
 public:
  enum class Kind : uint8_t {
    kLetter,    // part of a word, as it is
    kMapped,    // part of a word, as code point `value`
    kSpace,     // ends a word
    kIsolated,  // ends a word and is one itself
    kNothing,   // not there at all
    kBoundary,  // adds nothing, but canonical order does not cross it
    kReorder,   // part of a word; runs of these are sorted by `value`, the combining class
    kSequence,  // replaced by Sequence(value), each of which is looked up again
  };
  struct Entry {
    Kind kind : 8 = Kind::kLetter;
    uint32_t value : 24 = 0;
  };

  explicit CharTable(const NormaliserOptions& options);

  Entry Find(char32_t code) const { return entries_[code]; }
  std::span<const char32_t> Sequence(Entry entry) const {
    const char32_t* const first = &sequences_[entry.value];
    return {first + 1, *first};
  }

 private:
  std::vector<Entry> Fill(const NormaliserOptions& options);
  Entry AddSequence(std::span<const char32_t> parts);

  std::vector<char32_t> sequences_;  // each: its length, then its code points
  CodePointTable<Entry> entries_;    // last: filling it fills sequences_
};

}  // namespace tributary
