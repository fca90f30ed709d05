#include "engine/prepare/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

std::vector<std::pair<std::string, int32_t>> Places(const std::vector<AddedToken>& tokens) {
  std::vector<std::pair<std::string, int32_t>> places;
  places.reserve(tokens.size());
  for (const auto& token : tokens) places.emplace_back(token.content, static_cast<int32_t>(places.size()));
  return places;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), trie_(Places(tokens_)) {
  for (const auto& token : tokens_) begins_[static_cast<uint8_t>(token.content[0])] = true;
  if (std::count(begins_.begin(), begins_.end(), true) == 1) only_first_ = tokens_[0].content[0];
}

std::optional<AddedTokens::Match> AddedTokens::Find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (; from < text.size(); ++from) {
    if (only_first_) {
      from = text.find(*only_first_, from);
      if (from == std::string_view::npos) break;
    } else {
      while (from < text.size() && !begins_[static_cast<uint8_t>(text[from])]) ++from;
      if (from == text.size()) break;
    }
    const auto match = trie_.Longest(PieceTrie::kRoot, text.substr(from));
    if (match.length > 0) return Match{from, from + match.length, static_cast<size_t>(match.id)};
  }
  return std::nullopt;
}

bool AddedTokens::IsInWord(std::string_view text, const Match& match) const {
  if (match.begin > 0) {
    size_t before = utf8::StartOfLast(text.substr(0, match.begin));
    if (classes_.Is(utf8::Decode(text, before), CharClasses::kWord)) return true;
  }
  size_t behind = match.end;
  return behind < text.size() && classes_.Is(utf8::Decode(text, behind), CharClasses::kWord);
}

// Takes white space along, but none that was told already.
AddedTokens::Part AddedTokens::Widen(std::string_view text, const Match& match, size_t told) const {
  const AddedToken& token = tokens_[match.index];
  Part part{match.begin, match.end, token.id};
  while (token.lstrip && part.begin > told) {
    const size_t before = utf8::StartOfLast(text.substr(0, part.begin));
    size_t behind = before;
    if (!classes_.Is(utf8::Decode(text, behind), CharClasses::kSpace)) break;
    part.begin = before;
  }
  for (size_t behind = part.end; token.rstrip && part.end < text.size(); part.end = behind) {
    if (!classes_.Is(utf8::Decode(text, behind), CharClasses::kSpace)) break;
  }
  return part;
}

std::optional<AddedTokens::Part> AddedTokens::Reader::Next() {
  if (waiting_) return std::exchange(waiting_, std::nullopt);
  while (const auto match = tokens_.Find(text_, searched_)) {
    searched_ = match->end;
    if (tokens_.tokens_[match->index].single_word && tokens_.IsInWord(text_, *match)) continue;
    const Part token = tokens_.Widen(text_, *match, told_);
    const size_t begin = std::exchange(told_, token.end);
    if (begin >= token.begin) return token;
    waiting_ = token;
    return Part{begin, token.begin, Part::kText};
  }
  searched_ = text_.size();
  if (told_ == text_.size()) return std::nullopt;
  const size_t begin = std::exchange(told_, text_.size());
  return Part{begin, text_.size(), Part::kText};
}

}  // namespace tributary
