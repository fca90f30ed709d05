#include "engine/prepare/text/model/merge_table.h"

#include <algorithm>
#include <array>

namespace tributary {
namespace {

// Up to here looking through all candidates is faster than a heap (words of 32 bytes: about the same).
constexpr size_t kShort = 32;
constexpr int32_t kGone = -1;

}  // namespace

size_t MergeTable::Apply(std::span<int32_t> ids, Scratch& scratch) const {
  if (ids.size() < 2) return ids.size();
  return ids.size() <= kShort ? ApplyShort(ids) : ApplyLong(ids, scratch);
}

size_t MergeTable::ApplyShort(std::span<int32_t> ids) const {
  std::array<Merge, kShort> merges;  // of ids[i] and ids[i + 1]
  size_t count = ids.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = Find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) best = merges[i].rank < merges[best].rank ? i : best;
    if (merges[best].id < 0) break;
    ids[best] = merges[best].id;
    std::copy(ids.begin() + static_cast<ptrdiff_t>(best) + 2, ids.begin() + static_cast<ptrdiff_t>(count),
              ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + count - 1, merges.begin() + best);
    --count;
    if (best > 0) merges[best - 1] = Find(ids[best - 1], ids[best]);
    if (best + 1 < count) merges[best] = Find(ids[best], ids[best + 1]);
  }
  return count;
}

size_t MergeTable::ApplyLong(std::span<int32_t> ids, Scratch& scratch) const {
  const auto count = static_cast<uint32_t>(ids.size());
  auto& heap = scratch.heap;
  auto& before = scratch.before;
  auto& behind = scratch.behind;
  heap.clear();
  before.resize(count);
  behind.resize(count);
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  };
  const auto candidate = [&](uint32_t left, uint32_t right) {
    const Merge merge = Find(ids[left], ids[right]);
    if (merge.id >= 0) heap.push_back({merge.rank, left, ids[left], ids[right], merge.id});
    return merge.id >= 0;
  };
  for (uint32_t i = 0; i < count; ++i) {
    before[i] = i - 1;  // of the first: never looked at
    behind[i] = i + 1;
    if (i + 1 < count) candidate(i, i + 1);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    // Not what stands there now: one of the two has been merged since.
    const uint32_t place = best.place;
    if (ids[place] != best.left || behind[place] == count || ids[behind[place]] != best.right) continue;
    ids[place] = best.id;
    ids[behind[place]] = kGone;
    behind[place] = behind[behind[place]];
    if (behind[place] < count) {
      before[behind[place]] = place;
      if (candidate(place, behind[place])) std::push_heap(heap.begin(), heap.end(), later);
    }
    if (place > 0 && candidate(before[place], place)) std::push_heap(heap.begin(), heap.end(), later);
  }
  const auto last = std::remove(ids.begin(), ids.end(), kGone);
  return static_cast<size_t>(last - ids.begin());
}

}  // namespace tributary
