// The characters GPT-2's byte-level tokenisers write bytes in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {

// Printable Latin-1 characters stand for themselves; the other bytes are U+0100 and up, in their order.
// Source: bytes_to_unicode in encoder.py of GPT-2.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    bytes_.fill(kNone);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      bytes_[is_itself ? static_cast<char32_t>(byte) : next++] = static_cast<int16_t>(byte);
    }
  }

  // Nothing: a character that stands for no byte. `text` is well-formed UTF-8.
  std::optional<std::string> ToBytes(std::string_view text) const {
    std::string bytes;
    for (size_t position = 0; position < text.size();) {
      const char32_t code = utf8::Decode(text, position);
      if (code >= bytes_.size() || bytes_[code] == kNone) return std::nullopt;
      bytes.push_back(static_cast<char>(bytes_[code]));
    }
    return bytes;
  }

 private:
  static constexpr int16_t kNone = -1;
  std::array<int16_t, 0x180> bytes_;  // by character
};

}  // namespace tributary
