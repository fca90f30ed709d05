// Words of ASCII letters and digits, found and folded sixteen bytes at a time: how bert_tokenizer reads most of most
// texts.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "engine/prepare/text/model/word_table.h"

namespace tributary {

// The run of letters and digits that a text goes on with.
struct AsciiWord {
  size_t length = 0;           // more than WordKey::kMost: the run is too long, and `bytes` means nothing
  uint64_t bytes[2] = {0, 0};  // folded; behind the run anything

  WordKey Key() const {
    // Ones below the word's end.
    const auto mask = [](size_t count) { return count >= 8 ? ~uint64_t{0} : (uint64_t{1} << count * 8) - 1; };
    const uint64_t high = length <= 8 ? 0 : bytes[1] & mask(length - 8);
    return {bytes[0] & mask(length), high | uint64_t{length} << 56};
  }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes), length}; }
};

// Letters are or-ed with `fold`: 0x20 makes them small, 0 leaves them.
inline AsciiWord ReadAsciiWord(std::string_view text, size_t from, uint8_t fold) {
  static constexpr size_t kRead = WordKey::kMost + 1;
  alignas(kRead) char padded[kRead] = {};
  const char* bytes = text.data() + from;
  if (text.size() - from < kRead) bytes = static_cast<const char*>(std::memcpy(padded, bytes, text.size() - from));
  AsciiWord word;
#if defined(__SSE2__)
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  // first <= x < first + count; the comparison there is, is a signed one.
  const auto is_in = [](__m128i x, int first, int count) {
    const auto moved = _mm_sub_epi8(x, _mm_set1_epi8(static_cast<char>(first - 128)));
    return _mm_cmplt_epi8(moved, _mm_set1_epi8(static_cast<char>(count - 128)));
  };
  const __m128i letters = is_in(_mm_or_si128(all, _mm_set1_epi8(0x20)), 'a', 26);
  const __m128i kept = _mm_or_si128(letters, is_in(all, '0', 10));
  const __m128i folded = _mm_or_si128(all, _mm_and_si128(letters, _mm_set1_epi8(static_cast<char>(fold))));
  word.length = static_cast<size_t>(std::countr_one(static_cast<uint32_t>(_mm_movemask_epi8(kept))));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(word.bytes), folded);
#else
  char folded[kRead] = {};
  for (; word.length < kRead; ++word.length) {
    const auto byte = static_cast<uint8_t>(bytes[word.length]);
    const bool is_letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    if (!is_letter && (byte < '0' || byte > '9')) break;
    folded[word.length] = static_cast<char>(is_letter ? byte | fold : byte);
  }
  std::memcpy(word.bytes, folded, kRead);
#endif
  return word;
}

}  // namespace tributary
