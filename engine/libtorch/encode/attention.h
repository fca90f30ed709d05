// Attention over packed sequences: tokens of all texts in one row-wise tensor, no padding between them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <span>

namespace tributary {

// The sequences of a packed batch. Row totals are rounded up to a bucket: rows past the last sequence belong to none.
struct PackedSequences {
  std::span<const uint32_t> lengths;  // host, [B], equal lengths next to each other
  at::Tensor cu_seqlens;              // int32 [B+1], on the device: row where sequence b starts; last: useful rows
};

struct AttentionOptions {
  static constexpr int64_t kWholeText = std::numeric_limits<int64_t>::max();

  int64_t heads = 0;
  int64_t key_value_heads = 0;  // divides heads: each serves heads / key_value_heads of them
  int64_t head_size = 0;
  double scale = 0;  // of Q K^T; 1/sqrt(head_size) as a rule
  // How many tokens before and after itself a token sees; after = 0: causal.
  int64_t before = kWholeText;
  int64_t after = kWholeText;
  // f32 [heads, longest, longest], added to scale * Q K^T; undefined: none. Only where the whole text is seen.
  at::Tensor bias;
};

// softmax(scale * Q K^T + bias) V within each sequence and each token's reach, heads apart. query [T, heads, D]; key,
// value [T, key_value_heads, D]; result [T, heads*D], rows of no sequence zero. Softmax runs in fp32.
// CPU: our own kernel (kernels/cpu_attention) in fp32 without bias; else one fused call per group of equal lengths.
// CUDA, fp16 and bf16, without bias: one varlen flash call for all.
at::Tensor PackedAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const PackedSequences& sequences, const AttentionOptions& options);

}  // namespace tributary
