// Where the parts of a padded text batch lie in a staging slot, and how they get there. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/libtorch/exported/export_manifest.h"
#include "engine/libtorch/exported/padded_groups.h"

namespace tributary {

// The slot: for every group its inputs in the manifest's order, each [padded_rows, length] of the input's own type;
// then, for packing token states, int32: rows [T] (of each token in its group's [padded_rows * length]), positions [T],
// cu_seqlens [B+1]. Every part starts at a multiple of 64 bytes: compiled modules may read whole vector registers.
class TextSlot {
 public:
  TextSlot(const ExportManifest& manifest, std::vector<PaddedGroup> groups, std::span<const uint32_t> lengths);

  const std::vector<PaddedGroup>& groups() const { return groups_; }
  size_t bytes() const { return bytes_; }
  uint64_t padded_tokens() const { return padded_tokens_; }
  size_t tokens() const { return tokens_; }
  // Offsets, bytes.
  size_t Input(size_t group, size_t input) const { return inputs_[group * manifest_.inputs.size() + input]; }
  size_t Rows() const { return rows_; }
  size_t Positions() const { return positions_; }
  size_t Starts() const { return starts_; }

  // `texts`: ids of the rows; `slot`: of bytes(), aligned for int64.
  void Fill(std::span<const std::span<const int32_t>> texts, std::byte* slot) const;

  // Upper bound of bytes() for `rows` rows of `useful` tokens together.
  static size_t MaxBytes(const ExportManifest& manifest, uint64_t useful, size_t rows, const PaddingRules& rules);

 private:
  void FillGroup(size_t group, std::span<const std::span<const int32_t>> texts, std::byte* slot) const;

  const ExportManifest& manifest_;
  const std::vector<PaddedGroup> groups_;
  size_t tokens_ = 0;
  uint64_t padded_tokens_ = 0;
  std::vector<size_t> inputs_;
  size_t rows_ = 0;
  size_t positions_ = 0;
  size_t starts_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tributary
