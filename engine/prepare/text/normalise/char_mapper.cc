#include "engine/prepare/text/normalise/char_mapper.h"

#include <algorithm>
#include <iterator>

#include "engine/prepare/text/unicode/unicode_tables.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

template <class Action>
void ForEach(std::span<const unicode::Range> ranges, const Action& action) {
  for (const auto& range : ranges) {
    for (char32_t code = range.first; code <= range.last; ++code) action(code);
  }
}

constexpr char32_t kSpace[] = {U' '};

}  // namespace

void CharMapper::Rules::Set(char32_t code, std::span<const char32_t> parts) {
  all_[code] = static_cast<uint32_t>(parts_.size());
  parts_.push_back(static_cast<char32_t>(parts.size()));
  parts_.insert(parts_.end(), parts.begin(), parts.end());
}

CharMapper::CharMapper(Rules rules) : table_(rules.all_), parts_(std::move(rules.parts_)) {}

void CharMapper::Apply(std::string& text) const {
  // Up to the first change there is nothing to write.
  size_t position = 0;
  size_t kept = 0;
  for (; position < text.size(); kept = position) {
    if (table_[utf8::Decode(text, position)] != kKeep) break;
  }
  if (kept == text.size()) return;
  std::string out(text, 0, kept);
  out.reserve(text.size() + text.size() / 8);
  for (position = kept; position < text.size();) {
    const size_t begin = position;
    const uint32_t rule = table_[utf8::Decode(text, position)];
    if (rule == kKeep) {
      out.append(text, begin, position - begin);
      continue;
    }
    for (const char32_t part : std::span(&parts_[rule] + 1, parts_[rule])) utf8::Append(part, out);
  }
  text.swap(out);
}

CharMapper::Rules LowercaseRules() {
  CharMapper::Rules rules;
  for (const auto& mapping : unicode::LowerCase()) rules.Set(mapping.from, unicode::Parts(mapping));
  return rules;
}

CharMapper::Rules StripAccentsRules() {
  CharMapper::Rules rules;
  ForEach(unicode::CombiningMarks(), [&](char32_t code) { rules.Remove(code); });
  return rules;
}

// Source: do_nmt in normalizers/unicode.rs of Hugging Face tokenizers.
CharMapper::Rules NmtRules() {
  static constexpr unicode::Range kRemoved[] = {{0x01, 0x08}, {0x0B, 0x0B}, {0x0E, 0x1F},
                                                {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
  static constexpr unicode::Range kSpaces[] = {{0x09, 0x0A},     {0x0C, 0x0D},     {0x1680, 0x1680}, {0x200B, 0x200F},
                                               {0x2028, 0x2029}, {0x2581, 0x2581}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
  CharMapper::Rules rules;
  ForEach(kRemoved, [&](char32_t code) { rules.Remove(code); });
  ForEach(kSpaces, [&](char32_t code) { rules.Set(code, kSpace); });
  return rules;
}

CharMapper::Rules CleanTextRules() {
  CharMapper::Rules rules;
  ForEach(unicode::Whitespace(), [&](char32_t code) { rules.Set(code, kSpace); });
  ForEach(unicode::Removed(), [&](char32_t code) { rules.Remove(code); });
  return rules;
}

CharMapper::Rules ChineseCharsRules() {
  CharMapper::Rules rules;
  ForEach(unicode::Ideographs(), [&](char32_t code) {
    const char32_t apart[] = {U' ', code, U' '};
    rules.Set(code, apart);
  });
  return rules;
}

CharMapper::Rules NonSpacingMarksRules() {
  CharMapper::Rules rules;
  ForEach(unicode::Marks(), [&](char32_t code) { rules.Remove(code); });
  return rules;
}

}  // namespace tributary
