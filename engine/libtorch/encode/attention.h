// Attention over packed sequences: tokens of all texts in one row-wise tensor, no padding between them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace tributary {

// The sequences of a packed batch. Row totals are rounded up to a bucket: rows past the last sequence belong to none.
struct PackedSequences {
  std::span<const uint32_t> lengths;  // host, [B], equal lengths next to each other
  at::Tensor cu_seqlens;              // int32 [B+1], on the device: row where sequence b starts; last: useful rows
};

// softmax(Q K^T / sqrt(D)) V within each sequence, heads apart. qkv [T, 3*heads*D]: Q, K, V side by side; result
// [T, heads*D]; rows of no sequence are zero. Softmax runs in fp32.
// CPU: one fused call per group of equal lengths. CUDA, fp16 and bf16: one varlen flash call for all.
at::Tensor PackedAttention(const at::Tensor& qkv, const PackedSequences& sequences, int64_t heads);

}  // namespace tributary
