#include "engine/prepare/text/char_table.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "engine/prepare/text/unicode_tables.h"

namespace tributary {
namespace {

constexpr char32_t kCodeCount = 0x110000;

// Hangul syllables decompose by arithmetic (Unicode 15, section 3.12).
constexpr char32_t kHangulFirst = 0xAC00;
constexpr char32_t kHangulCount = 11172;
constexpr char32_t kLeadFirst = 0x1100;
constexpr char32_t kVowelFirst = 0x1161;
constexpr char32_t kTrailFirst = 0x11A7;  // one before the first: 0 means no trailing consonant
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailCount = 28;

std::span<const char32_t> Parts(const unicode::Mapping& mapping) {
  return {mapping.to, static_cast<size_t>(std::find(mapping.to, std::end(mapping.to), U'\0') - mapping.to)};
}

}  // namespace

CharTable::CharTable(const NormaliserOptions& options) {
  std::vector<Entry> all(kCodeCount);
  const auto set = [&](std::span<const unicode::Range> ranges, Kind kind) {
    for (const auto& range : ranges) std::fill(all.begin() + range.first, all.begin() + range.last + 1, Entry{kind, 0});
  };
  // Later lines win, so the reference's first step comes last.
  if (options.lowercase) {
    for (const auto& mapping : unicode::LowerCase()) {
      const auto parts = Parts(mapping);
      all[mapping.from] = parts.size() == 1 ? Entry{Kind::kMapped, parts[0]} : AddSequence(parts);
    }
  }
  set(unicode::Punctuation(), Kind::kIsolated);
  set(unicode::Whitespace(), Kind::kSpace);
  if (options.strip_accents) {
    for (const auto& mark : unicode::ReorderedNonStarters()) all[mark.code] = {Kind::kReorder, mark.combining_class};
    for (const auto& mapping : unicode::Decompositions()) all[mapping.from] = AddSequence(Parts(mapping));
    for (char32_t i = 0; i < kHangulCount; ++i) {
      const char32_t jamo[] = {kLeadFirst + i / (kVowelCount * kTrailCount),
                               kVowelFirst + i / kTrailCount % kVowelCount, kTrailFirst + i % kTrailCount};
      all[kHangulFirst + i] = AddSequence(std::span(jamo).first(i % kTrailCount == 0 ? 2 : 3));
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

  std::map<std::string_view, uint32_t> known;  // bytes of a page -> its offset
  entries_.reserve(size_t{kPageSize} * 512);
  for (size_t page = 0; page < kPageCount; ++page) {
    const Entry* const first = &all[page * kPageSize];
    const std::string_view bytes(reinterpret_cast<const char*>(first), kPageSize * sizeof(Entry));
    const auto [found, is_new] = known.emplace(bytes, static_cast<uint32_t>(entries_.size()));
    if (is_new) entries_.insert(entries_.end(), first, first + kPageSize);
    pages_[page] = found->second;
  }
}

CharTable::Entry CharTable::AddSequence(std::span<const char32_t> parts) {
  const Entry entry{Kind::kSequence, static_cast<uint32_t>(sequences_.size())};
  sequences_.push_back(static_cast<char32_t>(parts.size()));
  sequences_.insert(sequences_.end(), parts.begin(), parts.end());
  return entry;
}

}  // namespace tributary
