#include "engine/prepare/text/unicode/utf8.h"

#include <cstring>

namespace tributary::utf8 {
namespace {

// Length of the well-formed sequence at the start of `text` (not empty), 0 where there is none. Unicode 15, table 3-7.
size_t SequenceLength(std::string_view text) {
  const auto in = [&](size_t i, uint8_t low, uint8_t high) {
    return i < text.size() && static_cast<uint8_t>(text[i]) >= low && static_cast<uint8_t>(text[i]) <= high;
  };
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;   // no overlong forms
    const uint8_t high = lead == 0xED ? 0x9F : 0xBF;  // no surrogates
    return in(1, low, high) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const uint8_t low = lead == 0xF0 ? 0x90 : 0x80;   // no overlong forms
    const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;  // at most U+10FFFF
    return in(1, low, high) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

size_t FindInvalid(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    // Most bytes are ASCII: eight at a time.
    uint64_t word;
    while (i + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080u) != 0) break;
      i += sizeof(word);
    }
    if (i >= text.size()) break;
    const size_t length = SequenceLength(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace tributary::utf8
