// Rows of one batch put into groups of near lengths, each group padded to one length: what a module that takes [B, L]
// computes. Pure; used by exported/exported_text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tributary {

struct PaddingRules {
  uint64_t min_length = 1;  // what the module takes, tokens
  uint64_t max_length = 512;
  uint64_t min_rows = 1;   // a group with fewer is filled up with rows that are thrown away
  uint64_t call_cost = 0;  // of one more call of the module, in tokens of padding it would have to save
};

struct PaddedGroup {
  size_t first_row = 0;
  size_t rows = 0;
  size_t padded_rows = 0;  // >= rows
  size_t length = 0;       // >= that of each of its rows
};

// What a row of `length` tokens is padded to, <= max_length. Few lengths, because each is a shape of its own for the
// arithmetic: four geometric steps an octave from 8 on (8, 10, 12, 14, 16, 20, ...), at most a quarter of padding.
uint64_t PaddedLength(uint64_t length, const PaddingRules& rules);

// All values of PaddedLength, rising.
std::vector<uint64_t> PaddedLengths(const PaddingRules& rules);

// The cheapest groups: rows keep their order, and padded tokens plus call_cost per group are least. `lengths`: of the
// rows, longest first, each 1..max_length.
std::vector<PaddedGroup> GroupByLength(std::span<const uint32_t> lengths, const PaddingRules& rules);

// Upper bounds, for `rows` rows of `useful` tokens together: of groups, and of padded tokens over all groups.
size_t MaxGroups(size_t rows, const PaddingRules& rules);
uint64_t MaxPaddedTokens(uint64_t useful, size_t rows, const PaddingRules& rules);

}  // namespace tributary
