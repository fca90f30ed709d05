// From the hidden states of an image's tokens to its vector. The last step of encode/image_transformer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/libtorch/encode/linear.h"
#include "engine/libtorch/encode/norm.h"
#include "engine/libtorch/encode/transformer_layer.h"

namespace tributary {

// A linear layer over the pooled vector, in fp32.
struct PooledLinear {
  at::Tensor weight;  // f32 [out, in]; undefined: none
  at::Tensor bias;    // f32 [out]; undefined: none
  bool tanh = false;  // of the result

  at::Tensor Forward(const at::Tensor& pooled) const;
};

// Thread-safety: const methods from any thread. Errors: LibTorch's exceptions; the program guards.
class ImagePooling {
 public:
  ImagePooling() = default;
  virtual ~ImagePooling() = default;
  ImagePooling(const ImagePooling&) = delete;
  ImagePooling& operator=(const ImagePooling&) = delete;

  // hidden f32 [B, tokens, H] -> f32 [B, D].
  virtual at::Tensor Forward(const at::Tensor& hidden) const = 0;
};

// The first token, normed, through `linear` where there is one.
class ClassTokenPooling final : public ImagePooling {
 public:
  ClassTokenPooling(Norm norm, PooledLinear linear);
  at::Tensor Forward(const at::Tensor& hidden) const override;

 private:
  const Norm norm_;
  const PooledLinear linear_;
};

// The mean of all tokens, normed.
class MeanTokenPooling final : public ImagePooling {
 public:
  explicit MeanTokenPooling(Norm norm);
  at::Tensor Forward(const at::Tensor& hidden) const override;

 private:
  const Norm norm_;
};

// One learned query attends to all normed tokens; a feed-forward half with its residual follows. Products in the
// compute type, the rest in fp32. Source: Zhai et al. 2021, https://arxiv.org/abs/2106.04560, section 3.2, after Lee et
// al. 2018.
struct AttentionPoolingParts {
  at::ScalarType type = at::kFloat;
  int64_t heads = 0;
  Norm token_norm;
  at::Tensor query;  // compute type [heads, 1, head size]: the probe through the query's projection
  Linear key_value;
  Linear output;
  Norm feed_forward_norm;
  FeedForward feed_forward;
};

class AttentionPooling final : public ImagePooling {
 public:
  explicit AttentionPooling(AttentionPoolingParts parts);
  at::Tensor Forward(const at::Tensor& hidden) const override;

 private:
  const AttentionPoolingParts parts_;
};

}  // namespace tributary
