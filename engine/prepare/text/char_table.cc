#include "engine/prepare/text/char_table.h"

#include <algorithm>

#include "engine/prepare/text/unicode/hangul.h"
#include "engine/prepare/text/unicode/unicode_tables.h"

namespace tributary {

CharTable::CharTable(const NormaliserOptions& options) : entries_(Fill(options)) {}

std::vector<CharTable::Entry> CharTable::Fill(const NormaliserOptions& options) {
  std::vector<Entry> all(kCodePointCount);
  const auto set = [&](std::span<const unicode::Range> ranges, Kind kind) {
    for (const auto& range : ranges) std::fill(all.begin() + range.first, all.begin() + range.last + 1, Entry{kind, 0});
  };
  // Later lines win, so the reference's first step comes last.
  if (options.lowercase) {
    for (const auto& mapping : unicode::LowerCase()) {
      const auto parts = unicode::Parts(mapping);
      all[mapping.from] = parts.size() == 1 ? Entry{Kind::kMapped, parts[0]} : AddSequence(parts);
    }
  }
  set(unicode::Punctuation(), Kind::kIsolated);
  set(unicode::Whitespace(), Kind::kSpace);
  if (options.strip_accents) {
    for (const auto& mark : unicode::CombiningClasses()) all[mark.code] = {Kind::kReorder, mark.value};
    for (const auto& mapping : unicode::Decompositions()) all[mapping.from] = AddSequence(unicode::Parts(mapping));
    for (char32_t i = 0; i < hangul::kCount; ++i) {
      const auto letters = hangul::Decompose(hangul::kFirst + i);
      all[hangul::kFirst + i] = AddSequence(std::span(letters.codes).first(letters.count));
    }
    set(unicode::Marks(), Kind::kNothing);
    set(unicode::MarkStarters(), Kind::kBoundary);
  }
  if (options.handle_chinese_chars) {
    // Compatibility ideographs keep their decomposition: what they become is an ideograph, too.
    for (const auto& range : unicode::Ideographs()) {
      for (char32_t code = range.first; code <= range.last; ++code) {
        if (all[code].kind != Kind::kSequence) all[code] = {Kind::kIsolated, 0};
      }
    }
  }
  if (options.clean_text) set(unicode::Removed(), Kind::kNothing);
  return all;
}

CharTable::Entry CharTable::AddSequence(std::span<const char32_t> parts) {
  const Entry entry{Kind::kSequence, static_cast<uint32_t>(sequences_.size())};
  sequences_.push_back(static_cast<char32_t>(parts.size()));
  sequences_.insert(sequences_.end(), parts.begin(), parts.end());
  return entry;
}

}  // namespace tributary
