// Words of ASCII letters and digits, found and folded sixteen bytes at a time, and whole ones looked up: how
// bert_tokenizer reads most of most texts.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tributary {

// The run of letters and digits that a text goes on with, as far as it fits.
struct AsciiWord {
  static constexpr size_t kMost = 15;  // longer runs have length kMost + 1

  uint64_t low = 0;  // its bytes in memory order, zeros behind them
  uint64_t high = 0;
  size_t length = 0;

  friend bool operator==(const AsciiWord& a, const AsciiWord& b) { return a.low == b.low && a.high == b.high; }
};

// Letters are `or`-ed with `fold`: 0x20 makes them small, 0 leaves them.
inline AsciiWord ReadAsciiWord(std::string_view text, size_t from, uint8_t fold) {
  constexpr size_t kRead = AsciiWord::kMost + 1;
  alignas(16) char padded[kRead] = {};
  const char* bytes = text.data() + from;
  if (text.size() - from < kRead) bytes = static_cast<const char*>(std::memcpy(padded, bytes, text.size() - from));
  AsciiWord word;
#if defined(__SSE2__)
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  // x in [first, first + count): signed, x - first + -128 < count + -128.
  const auto in = [](__m128i x, char first, char count) {
    const auto moved = _mm_sub_epi8(x, _mm_set1_epi8(static_cast<char>(first - 128)));
    return _mm_cmplt_epi8(moved, _mm_set1_epi8(static_cast<char>(count - 128)));
  };
  const __m128i letters = in(_mm_or_si128(all, _mm_set1_epi8(0x20)), 'a', 26);
  const __m128i kept = _mm_or_si128(letters, in(all, '0', 10));
  const __m128i folded = _mm_or_si128(all, _mm_and_si128(letters, _mm_set1_epi8(static_cast<char>(fold))));
  const auto others = ~static_cast<uint32_t>(_mm_movemask_epi8(kept));
  word.length = static_cast<size_t>(std::countr_zero(others));
  alignas(16) uint64_t halves[2];
  _mm_store_si128(reinterpret_cast<__m128i*>(halves), folded);
#else
  while (word.length < kRead) {
    const auto byte = static_cast<uint8_t>(bytes[word.length]);
    const bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    if (!letter && (byte < '0' || byte > '9')) break;
    padded[word.length++] = static_cast<char>(letter ? byte | fold : byte);
  }
  uint64_t halves[2];
  std::memcpy(halves, padded, sizeof(halves));
#endif
  // Ones below the word's end; a shift by 64 is none.
  const auto mask = [](size_t count) { return count >= 8 ? ~uint64_t{0} : (uint64_t{1} << count * 8) - 1; };
  word.low = halves[0] & mask(word.length);
  word.high = word.length <= 8 ? 0 : halves[1] & mask(word.length - 8);
  return word;
}

// Ids of words by what ReadAsciiWord says of them. Thread-safety: const after construction.
class AsciiWordTable {
 public:
  static constexpr int32_t kNoId = -1;

  // Words that ReadAsciiWord leaves as they are; the others are left out.
  AsciiWordTable(const std::vector<std::pair<std::string, int32_t>>& words, size_t max_chars, uint8_t fold) {
    std::vector<Slot> found;
    for (const auto& [text, id] : words) {
      if (text.empty() || text.size() > std::min(max_chars, AsciiWord::kMost)) continue;
      const AsciiWord word = ReadAsciiWord(text, 0, fold);
      char bytes[16];
      std::memcpy(bytes, &word.low, 8);
      std::memcpy(bytes + 8, &word.high, 8);
      if (word.length == text.size() && std::memcmp(bytes, text.data(), text.size()) == 0)
        found.push_back({word.low, word.high, id});
    }
    // At most a quarter is taken: most look-ups end at the first slot.
    shift_ = 64 - static_cast<uint32_t>(std::bit_width(found.size() * 4));
    slots_.resize((size_t{1} << (64 - shift_)));
    for (const Slot& slot : found) {
      size_t place = Place(slot.low, slot.high);
      while (slots_[place].id != kNoId) place = (place + 1) & (slots_.size() - 1);
      slots_[place] = slot;
    }
  }

  int32_t Find(const AsciiWord& word) const {
    for (size_t place = Place(word.low, word.high);; place = (place + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[place];
      if (slot.low == word.low && slot.high == word.high) return slot.id;
      if (slot.id == kNoId) return kNoId;
    }
  }

 private:
  struct Slot {
    uint64_t low = 0;
    uint64_t high = 0;
    int32_t id = kNoId;
  };

  size_t Place(uint64_t low, uint64_t high) const {
    return ((low ^ std::rotl(high * 0xC2B2AE3D27D4EB4F, 31)) * 0x9E3779B97F4A7C15) >> shift_;
  }

  uint32_t shift_;
  std::vector<Slot> slots_;
};

}  // namespace tributary
