#include "engine/prepare/text/model/piece_trie.h"

#include <algorithm>

namespace tributary {

PieceTrie::PieceTrie(std::vector<std::pair<std::string, int32_t>> pieces) {
  std::sort(pieces.begin(), pieces.end());
  // Room for any byte behind every base, so that Child never reads past the end.
  units_.resize(512);
  units_[kRoot].parent = kNone - 1;  // taken, and nobody's child
  // Depth first, without recursion: a key may be as long as its file.
  std::vector<Open> open = {{kRoot, pieces, 0}};
  while (!open.empty()) {
    const Open next = open.back();
    open.pop_back();
    AddChildren(next, open);
  }
  const auto last = std::find_if(units_.rbegin(), units_.rend(), [](const Unit& unit) { return unit.parent != kNone; });
  units_.resize(static_cast<size_t>(units_.rend() - last) + 256);
  units_.shrink_to_fit();
}

PieceTrie::Node PieceTrie::Walk(std::string_view path) const {
  Node node = kRoot;
  for (const char byte : path) {
    node = Child(node, byte);
    if (node == kNone) break;
  }
  return node;
}

std::vector<PieceTrie::Step> PieceTrie::ByDepth(const std::vector<Node>& tops) const {
  std::vector<std::vector<Step>> levels;
  std::vector<uint32_t> depths(units_.size(), kNone);  // below its top
  for (const Node top : tops) depths[top] = 0;
  std::vector<Node> path;  // from a node up to one whose depth is known
  for (Node node = 0; node < units_.size(); ++node) {
    if (units_[node].parent == kNone) continue;
    for (Node at = node; depths[at] == kNone; at = units_[at].parent) path.push_back(at);
    for (; !path.empty(); path.pop_back()) {
      const Node at = path.back();
      const Node parent = units_[at].parent;
      depths[at] = depths[parent] + 1;
      if (levels.size() < depths[at]) levels.resize(depths[at]);
      levels[depths[at] - 1].push_back({at, parent, static_cast<char>(at - units_[parent].base)});
    }
  }
  std::vector<Step> steps;
  for (const auto& level : levels) steps.insert(steps.end(), level.begin(), level.end());
  return steps;
}

void PieceTrie::AddChildren(Open open, std::vector<Open>& rest) {
  auto& [node, pieces, depth] = open;
  if (!pieces.empty() && pieces.front().first.size() == depth) {
    units_[node].id = pieces.front().second;
    pieces = pieces.subspan(1);
  }
  // A leaf keeps base 0: `0 + byte` is never a child of it, as every unit names its real parent.
  if (pieces.empty()) return;
  std::vector<uint8_t> bytes;
  std::vector<size_t> starts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto byte = static_cast<uint8_t>(pieces[i].first[depth]);
    if (bytes.empty() || bytes.back() != byte) {
      bytes.push_back(byte);
      starts.push_back(i);
    }
  }
  starts.push_back(pieces.size());
  const uint32_t base = FindBase(bytes);
  units_[node].base = base;
  for (const uint8_t byte : bytes) units_[base + byte].parent = node;
  while (units_[first_free_].parent != kNone) ++first_free_;
  for (size_t i = bytes.size(); i-- > 0;) {  // the first child is taken up next
    rest.push_back({base + bytes[i], pieces.subspan(starts[i], starts[i + 1] - starts[i]), depth + 1});
  }
}

// First fit: `bytes` ascend, so the first of them decides where to look. Single bytes fill the holes; larger sets begin
// where the last one was found, as holes that did not fit it hardly fit the next (from the start, loading a vocabulary
// takes seconds).
uint32_t PieceTrie::FindBase(std::span<const uint8_t> bytes) {
  const uint32_t from = bytes.size() == 1 ? first_free_ : std::max(first_free_, last_found_);
  for (uint32_t base = from - bytes[0];; ++base) {
    if (base + 256 >= units_.size()) units_.resize(units_.size() * 2);
    if (!std::all_of(bytes.begin(), bytes.end(), [&](uint8_t b) { return units_[base + b].parent == kNone; })) continue;
    if (bytes.size() > 1) last_found_ = base + bytes[0];
    return base;
  }
}

}  // namespace tributary
