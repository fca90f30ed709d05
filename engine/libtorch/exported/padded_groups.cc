#include "engine/libtorch/exported/padded_groups.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tributary {
namespace {

constexpr uint64_t kSmallestLength = 8;
constexpr uint64_t kStepsPerOctave = 4;

// Neighbouring rows that are padded to one length anyway.
struct Run {
  size_t first_row = 0;
  size_t rows = 0;
  uint64_t length = 0;
};

std::vector<Run> RunsOf(std::span<const uint32_t> lengths, const PaddingRules& rules) {
  std::vector<Run> runs;
  for (size_t row = 0; row < lengths.size(); ++row) {
    const uint64_t length = PaddedLength(lengths[row], rules);
    if (runs.empty() || runs.back().length != length) runs.push_back({.first_row = row, .rows = 0, .length = length});
    ++runs.back().rows;
  }
  return runs;
}

}  // namespace

uint64_t PaddedLength(uint64_t length, const PaddingRules& rules) {
  const uint64_t least = std::max({length, kSmallestLength, rules.min_length});
  const uint64_t step = std::max<uint64_t>(std::bit_floor(least - 1) / kStepsPerOctave, 1);
  return std::min((least + step - 1) / step * step, rules.max_length);
}

std::vector<uint64_t> PaddedLengths(const PaddingRules& rules) {
  std::vector<uint64_t> lengths;
  for (uint64_t next = 1; next <= rules.max_length; next = lengths.back() + 1) {
    lengths.push_back(PaddedLength(next, rules));
  }
  return lengths;
}

std::vector<PaddedGroup> GroupByLength(std::span<const uint32_t> lengths, const PaddingRules& rules) {
  const std::vector<Run> runs = RunsOf(lengths, rules);
  // best[i]: least cost of the first i runs; a group is some neighbouring runs, padded to the first one's length.
  std::vector<uint64_t> best(runs.size() + 1, std::numeric_limits<uint64_t>::max());
  std::vector<size_t> start(runs.size() + 1, 0);
  best[0] = 0;
  for (size_t end = 1; end <= runs.size(); ++end) {
    uint64_t rows = 0;
    for (size_t first = end; first-- > 0;) {
      rows += runs[first].rows;
      const uint64_t cost = best[first] + std::max(rows, rules.min_rows) * runs[first].length + rules.call_cost;
      if (cost < best[end]) {
        best[end] = cost;
        start[end] = first;
      }
    }
  }
  std::vector<PaddedGroup> groups;
  for (size_t end = runs.size(); end > 0; end = start[end]) {
    const Run& first = runs[start[end]];
    const Run& last = runs[end - 1];
    PaddedGroup group{.first_row = first.first_row,
                      .rows = last.first_row + last.rows - first.first_row,
                      .padded_rows = 0,
                      .length = first.length};
    group.padded_rows = std::max<size_t>(group.rows, rules.min_rows);
    groups.push_back(group);
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

size_t MaxGroups(size_t rows, const PaddingRules& rules) { return std::min(rows, PaddedLengths(rules).size()); }

// The groups chosen cost no more than one group a length would, and their padded tokens are less than their cost.
uint64_t MaxPaddedTokens(uint64_t useful, size_t rows, const PaddingRules& rules) {
  const std::vector<uint64_t> lengths = PaddedLengths(rules);
  // A row gets at most a quarter more, or the smallest length.
  uint64_t tokens = useful + (useful + kStepsPerOctave - 1) / kStepsPerOctave + rows * lengths.front();
  tokens = std::min(tokens, rows * rules.max_length);
  for (const uint64_t length : lengths) tokens += (rules.min_rows - 1) * length;
  return tokens + lengths.size() * rules.call_cost;
}

}  // namespace tributary
