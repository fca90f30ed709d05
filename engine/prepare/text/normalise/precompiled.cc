#include "engine/prepare/text/normalise/precompiled.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

// The parts of a unit.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }
uint32_t Value(uint32_t unit) { return unit & ((1u << 31) - 1); }

bool IsAscii(char c) { return static_cast<uint8_t>(c) < 0x80; }

constexpr size_t kLongestGrapheme = 5;  // bytes

}  // namespace

absl::StatusOr<Precompiled> Precompiled::Create(std::string_view charsmap) {
  uint32_t bytes = 0;
  if (charsmap.size() < sizeof(bytes)) return absl::InvalidArgumentError("precompiled_charsmap is cut off");
  std::memcpy(&bytes, charsmap.data(), sizeof(bytes));
  charsmap.remove_prefix(sizeof(bytes));
  if (bytes < sizeof(uint32_t) || bytes % sizeof(uint32_t) != 0 || charsmap.size() < bytes) {
    return absl::InvalidArgumentError("precompiled_charsmap is cut off");
  }
  std::vector<uint32_t> units(bytes / sizeof(uint32_t));
  std::memcpy(units.data(), charsmap.data(), bytes);
  charsmap.remove_prefix(bytes);
  if (utf8::FindInvalid(charsmap) != std::string_view::npos) {
    return absl::InvalidArgumentError("precompiled_charsmap holds replacements that are not UTF-8");
  }
  return Precompiled(std::move(units), std::string(charsmap));
}

Precompiled::Precompiled(std::vector<uint32_t> units, std::string replacements)
    : units_(std::move(units)), replacements_(std::move(replacements)) {
  for (size_t i = 0; i < is_kept_.size(); ++i) {
    const char c = static_cast<char>(i);
    is_kept_[i] = c != '\r' && !Find({&c, 1});
  }
}

// What the shortest entry that `chunk` begins with becomes.
std::optional<std::string_view> Precompiled::Find(std::string_view chunk) const {
  uint32_t at = Offset(units_[0]);
  for (const char c : chunk) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0) break;
    at ^= byte;
    if (at >= units_.size()) return std::nullopt;
    const uint32_t unit = units_[at];
    if (Label(unit) != byte) return std::nullopt;
    at ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (at >= units_.size()) return std::nullopt;
    const uint32_t first = Value(units_[at]);
    if (first > replacements_.size()) return std::nullopt;
    const auto rest = std::string_view(replacements_).substr(first);
    // Not in the middle of a character.
    if (!rest.empty() && (static_cast<uint8_t>(rest[0]) & 0xC0) == 0x80) return std::nullopt;
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void Precompiled::Apply(std::string& text) const {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  size_t position = 0;
  while (position < text.size()) {
    // ASCII with ASCII behind it is a cluster of its own, but for a line break of two.
    size_t kept = position;
    while (kept < text.size() && IsKept(text[kept]) && (kept + 1 == text.size() || IsAscii(text[kept + 1]))) ++kept;
    out.append(text, position, kept - position);
    position = kept;
    if (position == text.size()) break;

    const size_t end = graphemes_.End(text, position);
    const auto grapheme = std::string_view(text).substr(position, end - position);
    position = end;
    if (grapheme.size() <= kLongestGrapheme) {
      if (const auto found = Find(grapheme)) {
        out += *found;
        continue;
      }
    }
    for (size_t i = 0; i < grapheme.size();) {
      const size_t begin = i;
      utf8::Decode(grapheme, i);
      const auto part = grapheme.substr(begin, i - begin);
      out += Find(part).value_or(part);
    }
  }
  text.swap(out);
}

}  // namespace tributary
