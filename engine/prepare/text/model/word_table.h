// Ids of short words: what the models look up whole before they cut anything.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace tributary {

// The bytes of a word and its length, in two registers.
struct WordKey {
  static constexpr size_t kMost = 15;

  uint64_t low = 0;
  uint64_t high = 0;  // the last byte is the length

  // `word` has at most kMost bytes; nothing beside them is read.
  static WordKey Of(std::string_view word) {
    const size_t size = word.size();
    const auto load = [&](auto value, size_t at) {
      std::memcpy(&value, word.data() + at, sizeof(value));
      return uint64_t{value};
    };
    // Two loads that overlap; where both say something, they say the same.
    WordKey key;
    if (size >= 8) {
      key.low = load(uint64_t{}, 0);
      if (size > 8) key.high = load(uint64_t{}, size - 8) >> (16 - size) * 8;
    } else if (size >= 4) {
      key.low = load(uint32_t{}, 0) | load(uint32_t{}, size - 4) << (size - 4) * 8;
    } else if (size > 0) {
      const auto byte = [&](size_t at) { return load(uint8_t{}, at) << at * 8; };
      key.low = byte(0) | byte(size / 2) | byte(size - 1);
    }
    key.high |= uint64_t{size} << 56;
    return key;
  }

  friend bool operator==(const WordKey&, const WordKey&) = default;
};
static_assert(std::endian::native == std::endian::little, "WordKey puts the first byte lowest");

// Open addressing: one slot is looked at for most words, there or not. Thread-safety: const after construction.
class WordTable {
 public:
  static constexpr int32_t kNoId = -1;

  using Words = std::vector<std::pair<std::string_view, int32_t>>;

  WordTable() : WordTable(Words()) {}
  // Words are distinct; ids >= 0. Those of more than WordKey::kMost bytes are left out.
  explicit WordTable(const Words& words)
      : shift_(64 - static_cast<uint32_t>(std::bit_width(words.size() * 2 + 1))), slots_(size_t{1} << (64 - shift_)) {
    for (const auto& [word, id] : words) {
      if (word.size() > WordKey::kMost) continue;
      const WordKey key = WordKey::Of(word);
      size_t place = Place(key);
      while (slots_[place].id != kNoId) place = Next(place);
      slots_[place] = {key, id};
    }
  }

  int32_t Find(const WordKey& key) const {
    for (size_t place = Place(key);; place = Next(place)) {
      const Slot& slot = slots_[place];
      if (slot.id == kNoId || slot.key == key) return slot.id;
    }
  }

 private:
  struct Slot {
    WordKey key;
    int32_t id = kNoId;
  };

  size_t Place(const WordKey& key) const {
    return ((key.low ^ std::rotl(key.high * 0xC2B2AE3D27D4EB4F, 31)) * 0x9E3779B97F4A7C15) >> shift_;
  }
  size_t Next(size_t place) const { return (place + 1) & (slots_.size() - 1); }

  uint32_t shift_;
  std::vector<Slot> slots_;  // at most half of them taken
};

}  // namespace tributary
