// Encoders that norm the input of each half of a layer and leave the sum of all halves as it is, until a last norm.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/libtorch/encode/norm.h"
#include "engine/libtorch/encode/rotary.h"
#include "engine/libtorch/encode/text_encoder.h"
#include "engine/libtorch/encode/transformer_layer.h"

namespace tributary {

struct PreNormLayer {
  std::optional<Norm> attention_norm;
  SelfAttention attention;
  std::optional<Norm> after_attention;  // of what is added to the sum
  Norm feed_forward_norm;
  FeedForward feed_forward;
  std::optional<Norm> after_feed_forward;
  size_t rotary = 0;  // which of the encoder's
};

struct PreNormParts {
  at::ScalarType type = at::kFloat;
  at::Tensor words;      // [vocabulary, H]
  at::Tensor positions;  // f32 [max_tokens, H], added to the words; undefined: none
  double embedding_scale = 1;
  std::optional<Norm> embedding_norm;
  std::vector<Rotary> rotaries;
  std::vector<PreNormLayer> layers;
  Norm final_norm;
  std::optional<TextHead> own_head;
};

// Run for ModernBERT, Qwen3, Gemma 3 and the text towers of CLIP and SigLIP; made by their files in encode/families.
// The sum runs through all layers in fp32, whatever the products' type: it grows with the depth, beyond what fp16 holds
// in Gemma, and every layer rounds it once more in bf16.
class PreNormEncoder final : public TextEncoder {
 public:
  PreNormEncoder(const TextEncoderInfo& info, PreNormParts parts);

  at::Tensor Forward(const at::Tensor& ids, const at::Tensor& positions,
                     const PackedSequences& sequences) const override;

 private:
  const PreNormParts parts_;
};

}  // namespace tributary
