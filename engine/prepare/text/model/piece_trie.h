// A set of byte strings with a number each, walked byte by byte: the vocabulary of a tokeniser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tributary {

// A double-array trie: the child of node n for byte b is at base[n] + b, and is one where its parent is n. One
// dependent load a byte; the 30,522 pieces of BERT take about 1.5 MB. Thread-safety: const after construction. Source:
// J. Aoe, An Efficient Digital Search Algorithm by Using a Double-Array Structure (1989).
class PieceTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = UINT32_MAX;
  static constexpr int32_t kNoId = -1;

  // Keys are distinct and not empty, ids >= 0.
  explicit PieceTrie(std::vector<std::pair<std::string, int32_t>> pieces);

  Node Child(Node node, char byte) const {
    const Node child = units_[node].base + static_cast<uint8_t>(byte);
    return units_[child].parent == node ? child : kNone;
  }
  // The node reached from the root by `path`; kNone where no key begins with it.
  Node Walk(std::string_view path) const;
  int32_t Id(Node node) const { return units_[node].id; }

  // Every node is below this.
  size_t node_limit() const { return units_.size(); }
  // The nodes below `tops`, with how they are reached: first the children of tops, then their children. Tops below
  // others count as tops only.
  struct Step {
    Node node;
    Node parent;
    char byte;
  };
  std::vector<Step> ByDepth(const std::vector<Node>& tops) const;

  // The longest key that begins at text[0], read on from `node`: its length (0: none) and its id.
  struct Match {
    size_t length = 0;
    int32_t id = kNoId;
  };
  Match Longest(Node node, std::string_view text) const {
    Match match;
    for (size_t i = 0; i < text.size();) {
      node = Child(node, text[i++]);
      if (node == kNone) break;
      if (const int32_t id = Id(node); id != kNoId) match = {i, id};
    }
    return match;
  }

 private:
  struct Unit {
    uint32_t base = 0;
    Node parent = kNone;  // kNone: free
    int32_t id = kNoId;
  };
  using Pieces = std::span<const std::pair<std::string, int32_t>>;

  // A node whose children are still to be placed: `pieces` are sorted and share their first `depth` bytes, its path.
  struct Open {
    Node node = 0;
    Pieces pieces;
    size_t depth = 0;
  };
  void AddChildren(Open open, std::vector<Open>& rest);
  uint32_t FindBase(std::span<const uint8_t> bytes);

  std::vector<Unit> units_;
  uint32_t first_free_ = 256;  // units below are taken, or out of reach of bases of at least 1
  uint32_t last_found_ = 256;  // where the last set of several children went
};

}  // namespace tributary
