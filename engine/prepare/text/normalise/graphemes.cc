#include "engine/prepare/text/normalise/graphemes.h"

#include <vector>

#include "engine/prepare/text/unicode/hangul.h"
#include "engine/prepare/text/unicode/unicode_tables.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

using namespace unicode;  // the flags

constexpr char32_t kJoiner = 0x200D;
// Of syllables, which the table of flags leaves out: consonant and vowel, both with a trailing consonant.
constexpr uint16_t kHangulOpen = 2048;
constexpr uint16_t kHangulClosed = 4096;

std::vector<uint16_t> AllFlags() {
  std::vector<uint16_t> all(kCodePointCount);
  for (const auto& range : GraphemeClasses()) {
    for (char32_t code = range.first; code <= range.last; ++code) all[code] = range.flags;
  }
  for (char32_t i = 0; i < hangul::kCount; ++i) {
    all[hangul::kFirst + i] = i % hangul::kTrailCount == 0 ? kHangulOpen : kHangulClosed;
  }
  return all;
}

bool JoinsInHangul(unsigned before, unsigned here) {
  if ((before & kHangulLead) != 0) return (here & (kHangulLead | kHangulVowel | kHangulOpen | kHangulClosed)) != 0;
  if ((before & (kHangulOpen | kHangulVowel)) != 0) return (here & (kHangulVowel | kHangulTrail)) != 0;
  if ((before & (kHangulClosed | kHangulTrail)) != 0) return (here & kHangulTrail) != 0;
  return false;
}

}  // namespace

Graphemes::Graphemes() : flags_(AllFlags()) {}

size_t Graphemes::End(std::string_view text, size_t from) const {
  size_t end = from;
  const char32_t first = utf8::Decode(text, end);
  if (first == '\r' && end < text.size() && text[end] == '\n') return end + 1;
  unsigned before = flags_[first];
  if ((before & kControl) != 0) return end;

  enum { kNoEmoji, kPicture, kJoined } emoji = (before & kPictograph) != 0 ? kPicture : kNoEmoji;
  enum { kNoConjunct, kOpen, kLinked } conjunct = (before & kConsonant) != 0 ? kOpen : kNoConjunct;
  for (size_t behind = end; end < text.size(); end = behind) {
    const char32_t code = utf8::Decode(text, behind);
    const unsigned here = flags_[code];
    if ((here & kControl) != 0) break;
    const bool joins = (here & kAttaches) != 0 || (before & kPrepends) != 0 || JoinsInHangul(before, here) ||
                       (emoji == kJoined && (here & kPictograph) != 0) ||
                       (conjunct == kLinked && (here & kConsonant) != 0);
    if (!joins) break;
    if ((here & kPictograph) != 0) {
      emoji = kPicture;
    } else if (emoji == kPicture && code == kJoiner) {
      emoji = kJoined;
    } else if (emoji == kJoined || (here & kPictographExtend) == 0) {
      emoji = kNoEmoji;
    }
    if ((here & kConsonant) != 0) {
      conjunct = kOpen;
    } else if (conjunct != kNoConjunct && (here & kLinker) != 0) {
      conjunct = kLinked;
    } else if ((here & kConjunctExtend) == 0) {
      conjunct = kNoConjunct;
    }
    before = here;
  }
  return end;
}

}  // namespace tributary
