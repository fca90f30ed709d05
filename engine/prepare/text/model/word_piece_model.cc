#include "engine/prepare/text/model/word_piece_model.h"

#include <algorithm>
#include <span>

#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {
namespace {

// A byte that no UTF-8 text has: it leads to the pieces that go on a word. They get a place of their own, as a text may
// have a word that really begins with their prefix.
constexpr char kContinuing = '\xFF';

std::vector<std::pair<std::string, int32_t>> Places(const WordPieceOptions& options) {
  std::vector<std::pair<std::string, int32_t>> places;
  const std::string& prefix = options.continuing_prefix;
  for (const auto& [piece, id] : options.vocabulary) {
    if (piece.size() > prefix.size() && piece.compare(0, prefix.size(), prefix) == 0) {
      const std::string rest = piece.substr(prefix.size());
      // Longer ones are never met, and would make for long lists of pops.
      if (utf8::Count(rest) <= options.max_word_chars) places.emplace_back(kContinuing + rest, id);
    }
    if (utf8::Count(piece) <= options.max_word_chars) places.emplace_back(piece, id);
  }
  // So that there is such a node in any case.
  places.emplace_back(std::string(2, kContinuing), 0);
  return places;
}

}  // namespace

WordPieceModel::WordPieceModel(const WordPieceOptions& options)
    : pieces_(Places(options)),
      continuing_(pieces_.Walk(std::string(1, kContinuing))),
      max_word_chars_(options.max_word_chars),
      unknown_id_(options.unknown_id) {
  AddLinks();
}

// From the nodes near the roots to those far off: what a link leads to is nearer to its root.
void WordPieceModel::AddLinks() {
  links_.resize(pieces_.node_limit());
  pops_ = {0};
  std::vector<int32_t> pops;
  for (const auto& [node, parent, byte] : pieces_.ByDepth({PieceTrie::kRoot, continuing_})) {
    Link& link = links_[node];
    if (const int32_t id = pieces_.Id(node); id != PieceTrie::kNoId) {
      link = {continuing_, static_cast<uint32_t>(pops_.size())};
      pops_.insert(pops_.end(), {1, id});
      continue;
    }
    const auto list = [&](uint32_t first) {
      return std::span(pops_).subspan(first + 1, static_cast<size_t>(pops_[first]));
    };
    Link before = links_[parent];
    const uint32_t shared = before.pops;
    pops.assign(list(shared).begin(), list(shared).end());
    const size_t known = pops.size();
    while (before.node != PieceTrie::kNone) {
      link.node = pieces_.Child(before.node, byte);
      if (link.node != PieceTrie::kNone) break;
      before = links_[before.node];
      if (before.node != PieceTrie::kNone) pops.insert(pops.end(), list(before.pops).begin(), list(before.pops).end());
    }
    if (link.node == PieceTrie::kNone) continue;
    link.pops = shared;
    if (pops.size() == known) continue;
    link.pops = static_cast<uint32_t>(pops_.size());
    pops_.push_back(static_cast<int32_t>(pops.size()));
    pops_.insert(pops_.end(), pops.begin(), pops.end());
  }
}

void WordPieceModel::Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const {
  for (const auto range : pieces.ranges()) {
    if (ids.size() > enough) return;
    const auto word = pieces.Text(range);
    EncodeWord(word, utf8::Count(word), ids);
  }
}

void WordPieceModel::EncodeWord(std::string_view word, size_t chars, std::vector<int32_t>& ids) const {
  Reader reader(*this, ids);
  reader.Add(word, chars);
  reader.End();
}

}  // namespace tributary
