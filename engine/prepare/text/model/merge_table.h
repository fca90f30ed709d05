// The merges of a byte pair encoding, and how they are carried out on one word.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tributary {

// Always the merge with the lowest rank, of equals the leftmost, until there is none: what the reference's heap does.
// Short words by looking through them for each merge, long ones with a heap: n log n, never n * n. Thread-safety: const
// after construction.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t id;  // of what the two become
  };
  // What one call needs; reused from word to word.
  struct Scratch;

  // A later merge of the same two counts.
  void Add(int32_t left, int32_t right, Merge merge) { merges_[Key(left, right)] = merge; }

  // Merges `ids` in place; the first of what it returns are left.
  size_t Apply(std::span<int32_t> ids, Scratch& scratch) const;

 private:
  struct Candidate;

  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  Merge Find(int32_t left, int32_t right) const {
    const auto found = merges_.find(Key(left, right));
    return found == merges_.end() ? Merge{UINT32_MAX, -1} : found->second;
  }
  size_t ApplyShort(std::span<int32_t> ids) const;
  size_t ApplyLong(std::span<int32_t> ids, Scratch& scratch) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;
};

struct MergeTable::Candidate {
  uint32_t rank;
  uint32_t place;
  int32_t left;  // the two, as they were
  int32_t right;
  int32_t id;
};

struct MergeTable::Scratch {
  std::vector<Candidate> heap;
  std::vector<uint32_t> before;
  std::vector<uint32_t> behind;
};

}  // namespace tributary
