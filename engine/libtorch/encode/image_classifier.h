// The linear layer that makes class scores of an image's vector. ConSE needs it (encode/image_program); an encoder that
// only embeds goes without.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tributary {

struct ImageClassifier {
  at::Tensor weight;  // f32 [classes, dimensions]; undefined: none
  at::Tensor bias;    // f32 [classes]

  int64_t classes() const { return weight.defined() ? weight.size(0) : 0; }
  // pooled f32 [B, dimensions] -> logits f32 [B, classes].
  at::Tensor Forward(const at::Tensor& pooled) const;
};

}  // namespace tributary
