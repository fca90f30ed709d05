#include "engine/libtorch/encode/attention.h"

#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <tuple>

namespace tributary {
namespace {

at::Tensor VarlenFlashAttention(const at::Tensor& qkv, const PackedSequences& sequences) {
  const int64_t longest = *std::max_element(sequences.lengths.begin(), sequences.lengths.end());
  const at::Tensor context = std::get<0>(at::_flash_attention_forward(
      qkv.select(1, 0), qkv.select(1, 1), qkv.select(1, 2), sequences.cu_seqlens, sequences.cu_seqlens, longest,
      longest, /*dropout_p=*/0.0, /*is_causal=*/false, /*return_debug_mask=*/false));
  // The kernel leaves rows past the last sequence unwritten: they must not carry NaN into the layers above.
  int64_t useful = 0;
  for (const uint32_t length : sequences.lengths) useful += length;
  if (useful < context.size(0)) context.narrow(0, useful, context.size(0) - useful).zero_();
  return context;
}

at::Tensor GroupedAttention(const at::Tensor& qkv, const PackedSequences& sequences) {
  const int64_t tokens = qkv.size(0);
  const int64_t heads = qkv.size(2);
  const int64_t head_size = qkv.size(3);
  at::Tensor context = at::empty({tokens, heads, head_size}, qkv.options());
  int64_t row = 0;
  for (size_t first = 0; first < sequences.lengths.size();) {
    const int64_t length = sequences.lengths[first];
    size_t end = first + 1;
    while (end < sequences.lengths.size() && sequences.lengths[end] == length) ++end;
    const auto count = static_cast<int64_t>(end - first);
    const at::Tensor group = qkv.narrow(0, row, count * length).view({count, length, 3, heads, head_size});
    const at::Tensor mixed = at::scaled_dot_product_attention(
        group.select(2, 0).transpose(1, 2), group.select(2, 1).transpose(1, 2), group.select(2, 2).transpose(1, 2));
    context.narrow(0, row, count * length).view({count, length, heads, head_size}).copy_(mixed.transpose(1, 2));
    row += count * length;
    first = end;
  }
  if (row < tokens) context.narrow(0, row, tokens - row).zero_();
  return context;
}

}  // namespace

at::Tensor PackedAttention(const at::Tensor& qkv, const PackedSequences& sequences, int64_t heads) {
  const int64_t tokens = qkv.size(0);
  const int64_t width = qkv.size(1) / 3;
  const at::Tensor split = qkv.view({tokens, 3, heads, width / heads});
  const bool flash = qkv.is_cuda() && qkv.scalar_type() != at::kFloat;
  return (flash ? VarlenFlashAttention(split, sequences) : GroupedAttention(split, sequences)).view({tokens, width});
}

}  // namespace tributary
