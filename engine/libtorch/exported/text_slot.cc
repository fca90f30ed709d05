#include "engine/libtorch/exported/text_slot.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tributary {
namespace {

constexpr size_t kAlignment = 64;

// Takes `bytes` at the next aligned place behind `*end`.
size_t Take(size_t bytes, size_t* end) {
  const size_t begin = (*end + kAlignment - 1) / kAlignment * kAlignment;
  *end = begin + bytes;
  return begin;
}

// One input of a group. A row that only fills the group up is one padding token long: attention over none is not
// finite.
template <typename T>
void FillInput(InputRole role, int64_t pad_id, const PaddedGroup& group,
               std::span<const std::span<const int32_t>> texts, T* out) {
  for (size_t row = 0; row < group.padded_rows; ++row, out += group.length) {
    const bool filler = row >= group.rows;
    const size_t length = filler ? 1 : texts[group.first_row + row].size();
    switch (role) {
      case InputRole::kIds:
        if (filler) {
          std::fill(out, out + group.length, static_cast<T>(pad_id));
        } else {
          const auto& ids = texts[group.first_row + row];
          std::fill(std::copy(ids.begin(), ids.end(), out), out + group.length, static_cast<T>(pad_id));
        }
        break;
      case InputRole::kAttentionMask:
        std::fill(std::fill_n(out, length, T{1}), out + group.length, T{0});
        break;
      case InputRole::kPositionIds:
        std::iota(out, out + group.length, T{0});
        break;
      case InputRole::kTokenTypeIds:
      case InputRole::kPixels:
        std::fill_n(out, group.length, T{0});
        break;
    }
  }
}

}  // namespace

TextSlot::TextSlot(const ExportManifest& manifest, std::vector<PaddedGroup> groups, std::span<const uint32_t> lengths)
    : manifest_(manifest),
      groups_(std::move(groups)),
      tokens_(std::accumulate(lengths.begin(), lengths.end(), size_t{0})) {
  for (const PaddedGroup& group : groups_) {
    const size_t padded = group.padded_rows * group.length;
    padded_tokens_ += padded;
    for (const ExportedInput& input : manifest_.inputs) {
      inputs_.push_back(Take(padded * ElementBytes(input.type), &bytes_));
    }
  }
  rows_ = Take(tokens_ * sizeof(int32_t), &bytes_);
  positions_ = Take(tokens_ * sizeof(int32_t), &bytes_);
  starts_ = Take((lengths.size() + 1) * sizeof(int32_t), &bytes_);
}

void TextSlot::FillGroup(size_t group, std::span<const std::span<const int32_t>> texts, std::byte* slot) const {
  for (size_t i = 0; i < manifest_.inputs.size(); ++i) {
    const ExportedInput& input = manifest_.inputs[i];
    std::byte* const out = slot + Input(group, i);
    if (input.type == ElementType::kInt32) {
      FillInput(input.role, manifest_.text->pad_id, groups_[group], texts, reinterpret_cast<int32_t*>(out));
    } else {
      FillInput(input.role, manifest_.text->pad_id, groups_[group], texts, reinterpret_cast<int64_t*>(out));
    }
  }
}

void TextSlot::Fill(std::span<const std::span<const int32_t>> texts, std::byte* slot) const {
  auto* rows = reinterpret_cast<int32_t*>(slot + rows_);
  auto* positions = reinterpret_cast<int32_t*>(slot + positions_);
  auto* starts = reinterpret_cast<int32_t*>(slot + starts_);
  int32_t start = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    FillGroup(g, texts, slot);
    const PaddedGroup& group = groups_[g];
    for (size_t row = 0; row < group.rows; ++row) {
      const size_t length = texts[group.first_row + row].size();
      std::iota(rows, rows + length, static_cast<int32_t>(row * group.length));
      std::iota(positions, positions + length, 0);
      rows += length;
      positions += length;
      *starts++ = start;
      start += static_cast<int32_t>(length);
    }
  }
  *starts = start;
}

size_t TextSlot::MaxBytes(const ExportManifest& manifest, uint64_t useful, size_t rows, const PaddingRules& rules) {
  size_t token_bytes = 0;
  for (const ExportedInput& input : manifest.inputs) token_bytes += ElementBytes(input.type);
  const size_t parts = MaxGroups(rows, rules) * manifest.inputs.size() + 3;
  return MaxPaddedTokens(useful, rows, rules) * token_bytes + (2 * useful + rows + 1) * sizeof(int32_t) +
         parts * kAlignment;
}

}  // namespace tributary
