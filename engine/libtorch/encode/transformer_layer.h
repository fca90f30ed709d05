// The two halves of a transformer layer, as all text families share them; where the norms and residuals lie differs
// (encode/post_norm_encoder, encode/pre_norm_encoder).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/encode/norm.h"
#include "engine/libtorch/encode/rotary.h"

namespace tributary {

struct SelfAttention {
  Linear qkv;     // queries, keys and values as one product: [(heads + 2 * key_value_heads) * head_size, H]
  Linear output;  // [H, heads * head_size]
  AttentionOptions options;
  // Over each head of queries and keys, before they are turned: gain [heads + key_value_heads, head_size].
  std::optional<Norm> head_norm;

  // x [T, H] -> [T, heads * head_size], what `output` is applied to. angles: null where nothing is turned.
  at::Tensor Context(const at::Tensor& x, const PackedSequences& sequences, const RotaryAngles* angles) const;
};

struct FeedForward {
  Activation activation = Activation::kGelu;
  std::optional<Linear> gate;  // gated: activation(gate(x)) * up(x); plain: activation(up(x))
  Linear up;
  Linear down;

  // x [T, H] -> [T, intermediate_size], what `down` is applied to.
  at::Tensor Inner(const at::Tensor& x) const;
};

}  // namespace tributary
