#include "engine/prepare/text/pattern/word_patterns.h"

#include <algorithm>

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

constexpr unsigned kLetter = CharClasses::kLetter;
constexpr unsigned kNumber = CharClasses::kNumber;
constexpr unsigned kSpace = CharClasses::kSpace;
constexpr unsigned kAll = kLetter | kNumber | kSpace;

// The kind of the character at `at`, moved behind it.
unsigned Kind(const CharClasses& classes, std::string_view text, size_t& at) {
  return classes.Of(utf8::Decode(text, at)) & kAll;
}

// The end of the run of characters of `kind` (0: neither letter, number nor space) that goes on at `at`; of no more
// than `most` of them.
size_t RunEnd(const CharClasses& classes, std::string_view text, size_t at, unsigned kind, size_t most = SIZE_MAX) {
  for (size_t behind = at; at < text.size() && most > 0; at = behind, --most) {
    if (Kind(classes, text, behind) != kind) break;
  }
  return at;
}

// Length of 's 't 're 've 'm 'll 'd at `at`, 0 where there is none. Without case, U+017F is an s.
size_t ContractionLength(std::string_view text, size_t at, bool any_case) {
  if (text[at] != '\'' || at + 1 >= text.size()) return 0;
  const auto letter = [&](size_t i) {
    if (i >= text.size()) return '\0';
    return any_case && text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
  };
  const char first = letter(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = letter(at + 2);
  if (second == 'e' && (first == 'r' || first == 'v')) return 3;
  if (first == 'l' && second == 'l') return 3;
  if (any_case && text.substr(at + 1, 2) == "\u017f") return 3;
  return 0;
}

// The end of \s+(?!\S)|\s+ at a space: the last character of the run is left to the word behind it, if there is one.
size_t SpacesEnd(const CharClasses& classes, std::string_view text, size_t from) {
  const size_t end = RunEnd(classes, text, from, kSpace);
  if (end == text.size()) return end;
  const size_t last = utf8::StartOfLast(text.substr(0, end));
  return last > from ? last : end;
}

}  // namespace

std::optional<Pattern::Match> Gpt2Pattern::Find(std::string_view text, size_t from) const {
  if (from >= text.size()) return std::nullopt;
  if (const size_t length = ContractionLength(text, from, false); length > 0) return Match{from, from + length};
  size_t behind = from;
  unsigned kind = Kind(classes_, text, behind);
  if (kind == kSpace) {
    // One plain space goes with the word behind it.
    if (text[from] != ' ' || behind == text.size()) return Match{from, SpacesEnd(classes_, text, from)};
    kind = Kind(classes_, text, behind);
    if (kind == kSpace) return Match{from, SpacesEnd(classes_, text, from)};
  }
  return Match{from, RunEnd(classes_, text, behind, kind)};
}

std::optional<Pattern::Match> Cl100kPattern::Find(std::string_view text, size_t from) const {
  if (from >= text.size()) return std::nullopt;
  if (const size_t length = ContractionLength(text, from, true); length > 0) return Match{from, from + length};
  size_t behind = from;
  const unsigned kind = Kind(classes_, text, behind);
  if (kind == kLetter) return Match{from, RunEnd(classes_, text, behind, kLetter)};
  if (kind == kNumber) return Match{from, RunEnd(classes_, text, from, kNumber, max_digits_)};
  const auto is_break = [](char c) { return c == '\r' || c == '\n'; };
  // One character of another kind goes with the letters behind it.
  size_t next = behind;
  const unsigned next_kind = next < text.size() ? Kind(classes_, text, next) : kSpace;
  if (!is_break(text[from]) && next_kind == kLetter) return Match{from, RunEnd(classes_, text, next, kLetter)};
  if (kind == 0 || (text[from] == ' ' && next_kind == 0)) {
    size_t end = RunEnd(classes_, text, behind, 0);
    while (end < text.size() && is_break(text[end])) ++end;
    return Match{from, end};
  }
  const size_t end = RunEnd(classes_, text, from, kSpace);
  const auto run = text.substr(from, end - from);
  if (const size_t last = run.find_last_of("\r\n"); last != std::string_view::npos) return Match{from, from + last + 1};
  return Match{from, SpacesEnd(classes_, text, from)};
}

std::optional<Pattern::Match> ClipPattern::Find(std::string_view text, size_t from) const {
  while (from < text.size()) {
    if (special_tokens_ && text[from] == '<') {
      for (const std::string_view token : {"<|startoftext|>", "<|endoftext|>"}) {
        if (text.substr(from, token.size()) == token) return Match{from, from + token.size()};
      }
    }
    if (const size_t length = ContractionLength(text, from, false); length > 0) return Match{from, from + length};
    size_t behind = from;
    const unsigned kind = Kind(classes_, text, behind);
    if (kind == kNumber) return Match{from, behind};
    if (kind != kSpace) return Match{from, RunEnd(classes_, text, behind, kind)};
    from = behind;
  }
  return std::nullopt;
}

}  // namespace tributary
