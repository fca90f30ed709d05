#include "engine/prepare/text/model/unigram.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_format.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

constexpr double kUnknownPenalty = 10.0;

// Where a piece is there twice, the later one counts.
std::vector<std::pair<std::string, int32_t>> Distinct(const UnigramOptions& options) {
  std::map<std::string, int32_t> ids;
  for (size_t i = 0; i < options.pieces.size(); ++i) {
    if (!options.pieces[i].first.empty()) ids[options.pieces[i].first] = static_cast<int32_t>(i);
  }
  return {ids.begin(), ids.end()};
}

}  // namespace

Unigram::Unigram(const UnigramOptions& options) : pieces_(Distinct(options)), unknown_id_(options.unknown_id) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& [piece, score] : options.pieces) {
    scores_.push_back(score);
    lowest = std::min(lowest, score);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  if (options.byte_fallback) {
    byte_ids_.emplace();
    for (size_t byte = 0; byte < byte_ids_->size(); ++byte) {
      const auto node = pieces_.Walk(absl::StrFormat("<0x%02X>", byte));
      (*byte_ids_)[byte] = node == PieceTrie::kNone ? PieceTrie::kNoId : pieces_.Id(node);
    }
  }
  FindWholeWords(options);
}

void Unigram::FindWholeWords(const UnigramOptions& options) {
  WordTable::Words found;
  std::vector<Step> steps;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < options.pieces.size(); ++i) {
    const std::string& piece = options.pieces[i].first;
    if (piece.empty() || piece.size() > WordKey::kMost) continue;
    ids.clear();
    EncodeWord(piece, steps, ids);
    // One that is there twice has the later id.
    if (ids.size() == 1 && ids[0] == static_cast<int32_t>(i)) found.emplace_back(piece, ids[0]);
  }
  whole_words_ = WordTable(found);
}

void Unigram::Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const {
  std::vector<Step> steps;
  for (const auto range : pieces.ranges()) {
    if (ids.size() > enough) return;
    const auto word = pieces.Text(range);
    const int32_t whole = word.size() <= WordKey::kMost ? whole_words_.Find(WordKey::Of(word)) : WordTable::kNoId;
    if (whole != WordTable::kNoId) {
      ids.push_back(whole);
    } else {
      EncodeWord(word, steps, ids);
    }
  }
}

void Unigram::EncodeWord(std::string_view word, std::vector<Step>& steps, std::vector<int32_t>& ids) const {
  steps.assign(word.size() + 1, {0.0, 0, -1});
  for (size_t start = 0; start < word.size();) {
    const double before = steps[start].score;
    const auto offer = [&](size_t end, double score, int32_t id) {
      Step& step = steps[end];
      if (step.start >= 0 && score <= step.score) return;
      step = {score, id, static_cast<int32_t>(start)};
    };
    size_t behind = start;
    utf8::Decode(word, behind);
    bool has_single = false;
    auto node = PieceTrie::kRoot;
    for (size_t end = start; end < word.size();) {
      node = pieces_.Child(node, word[end++]);
      if (node == PieceTrie::kNone) break;
      const int32_t id = pieces_.Id(node);
      if (id == PieceTrie::kNoId) continue;
      offer(end, scores_[static_cast<size_t>(id)] + before, id);
      has_single = has_single || end == behind;
    }
    if (!has_single) offer(behind, unknown_score_ + before, unknown_id_);
    start = behind;
  }
  // Backwards along the path, then turned around. Unknown pieces side by side are one.
  const size_t first = ids.size();
  for (size_t end = word.size(); end > 0;) {
    size_t start = static_cast<size_t>(steps[end].start);
    if (steps[end].id != unknown_id_) {
      ids.push_back(steps[end].id);
    } else {
      while (start > 0 && steps[start].id == unknown_id_) start = static_cast<size_t>(steps[start].start);
      const size_t before = ids.size();
      AddUnknown(word.substr(start, end - start), ids);
      std::reverse(ids.begin() + static_cast<ptrdiff_t>(before), ids.end());
    }
    end = start;
  }
  std::reverse(ids.begin() + static_cast<ptrdiff_t>(first), ids.end());
}

void Unigram::AddUnknown(std::string_view text, std::vector<int32_t>& ids) const {
  // A piece after all, such as the unknown token itself written out.
  if (const auto node = pieces_.Walk(text); node != PieceTrie::kNone && pieces_.Id(node) != PieceTrie::kNoId) {
    ids.push_back(pieces_.Id(node));
    return;
  }
  const auto has_byte = [&](char c) { return (*byte_ids_)[static_cast<uint8_t>(c)] != PieceTrie::kNoId; };
  if (byte_ids_ && std::all_of(text.begin(), text.end(), has_byte)) {
    for (const char c : text) ids.push_back((*byte_ids_)[static_cast<uint8_t>(c)]);
    return;
  }
  ids.push_back(unknown_id_);
}

}  // namespace tributary
