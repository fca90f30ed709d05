// Encoders built as the first transformers were: each half of a layer is added to its input, then normed.
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

struct PostNormLayer {
  SelfAttention attention;
  Norm attention_norm;
  FeedForward feed_forward;
  Norm output_norm;
};

struct PostNormParts {
  at::ScalarType type = at::kFloat;
  at::Tensor words;      // [vocabulary, H]
  at::Tensor positions;  // f32 [positions, H]; undefined: none
  // RoBERTa's kind of positions: they count from padding_id + 1, tokens of that id are not counted and stay at it.
  std::optional<int64_t> padding_id;
  at::Tensor token_type;  // f32 [H], added to every row; undefined: none, or in `positions` already
  Norm embedding_norm;
  std::optional<Rotary> rotary;
  std::vector<PostNormLayer> layers;
};

// Run for BERT, DistilBERT, RoBERTa, MPNet, NomicBERT and GTE; made by their files in encode/families.
class PostNormEncoder final : public TextEncoder {
 public:
  PostNormEncoder(const TextEncoderInfo& info, PostNormParts parts);

  at::Tensor Forward(const at::Tensor& ids, const at::Tensor& positions,
                     const PackedSequences& sequences) const override;

 private:
  const PostNormParts parts_;
};

}  // namespace tributary
