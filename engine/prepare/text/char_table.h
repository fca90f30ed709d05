// What becomes of each code point on its way into words: the whole BERT normaliser and the word split, folded into one
// look-up. Between utf8.h and word_piece.h in the preparation of a text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

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

  Entry Find(char32_t code) const { return entries_[pages_[code >> kPageBits] + (code & (kPageSize - 1))]; }
  std::span<const char32_t> Sequence(Entry entry) const {
    const char32_t* const first = &sequences_[entry.value];
    return {first + 1, *first};
  }

 private:
  static constexpr uint32_t kPageBits = 7;  // 128: ASCII is page 0
  static constexpr uint32_t kPageSize = 1u << kPageBits;
  static constexpr uint32_t kPageCount = 0x110000 >> kPageBits;

  Entry AddSequence(std::span<const char32_t> parts);

  std::array<uint32_t, kPageCount> pages_;  // offset of the page in entries_; equal pages are stored once
  std::vector<Entry> entries_;
  std::vector<char32_t> sequences_;  // each: its length, then its code points
};

}  // namespace tributary
