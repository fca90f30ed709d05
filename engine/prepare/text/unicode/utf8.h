// UTF-8, checked once per text; everything behind the check may assume it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tributary::utf8 {

// Offset of the first byte that is not part of a well-formed sequence (no overlong forms, no surrogates, at most
// U+10FFFF); npos: all of `text` is UTF-8.
size_t FindInvalid(std::string_view text);

// Decodes the code point at `position` of well-formed text and moves `position` behind it.
inline char32_t Decode(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint8_t lead = byte(0);
  char32_t code;
  if (lead < 0x80) {
    code = lead;
    position += 1;
  } else if (lead < 0xE0) {
    code = (lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
    position += 2;
  } else if (lead < 0xF0) {
    code = (lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    position += 3;
  } else {
    code = (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    position += 4;
  }
  return code;
}

// Where the last character of well-formed text, not empty, begins.
inline size_t StartOfLast(std::string_view text) {
  size_t start = text.size() - 1;
  while ((static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

// Characters of well-formed text.
inline size_t Count(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

// One character.
struct Encoded {
  char bytes[4];
  uint8_t size;
  std::string_view view() const { return {bytes, size}; }
};

inline Encoded Encode(char32_t code) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  const auto tail = [&](uint32_t bits) { return byte(0x80 | (code >> bits & 0x3F)); };
  if (code < 0x80) return {{byte(code)}, 1};
  if (code < 0x800) return {{byte(0xC0 | code >> 6), tail(0)}, 2};
  if (code < 0x10000) return {{byte(0xE0 | code >> 12), tail(6), tail(0)}, 3};
  return {{byte(0xF0 | code >> 18), tail(12), tail(6), tail(0)}, 4};
}

inline void Append(char32_t code, std::string& out) { out.append(Encode(code).view()); }

}  // namespace tributary::utf8
