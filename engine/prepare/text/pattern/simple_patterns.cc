#include "engine/prepare/text/pattern/simple_patterns.h"

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {

std::optional<Pattern::Match> LiteralPattern::Find(std::string_view text, size_t from) const {
  const size_t begin = text.find(literal_, from);
  if (begin == std::string_view::npos) return std::nullopt;
  return Match{begin, begin + literal_.size()};
}

std::optional<Pattern::Match> CharRunPattern::Find(std::string_view text, size_t from) const {
  while (from < text.size()) {
    size_t end = from;
    size_t count = 0;
    size_t behind = from;  // the character just looked at
    while (end < text.size() && Holds(utf8::Decode(text, behind))) {
      end = behind;
      ++count;
      if (!options_.longest && count == options_.least) break;
    }
    if (count >= options_.least) return Match{from, end};
    from = behind;  // a run that is too short, and what ended it
  }
  return std::nullopt;
}

std::optional<Pattern::Match> WordOrMarksPattern::Find(std::string_view text, size_t from) const {
  static constexpr unsigned kKinds = CharClasses::kWord | CharClasses::kSpace;
  while (from < text.size()) {
    size_t end = from;
    const unsigned kind = classes_.Of(utf8::Decode(text, end)) & kKinds;
    if (kind == CharClasses::kSpace) {
      from = end;
      continue;
    }
    for (size_t behind = end; end < text.size(); end = behind) {
      if ((classes_.Of(utf8::Decode(text, behind)) & kKinds) != kind) break;
    }
    return Match{from, end};
  }
  return std::nullopt;
}

}  // namespace tributary
