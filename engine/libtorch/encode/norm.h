// The norms of the encoders, over the last dimension, computed in fp32 whatever the input's type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tributary {

// kLayer: (x - mean) / sqrt(variance + epsilon) * gain + bias. kRms: x / sqrt(mean(x^2) + epsilon) * gain.
// Sources: Ba et al. 2016, https://arxiv.org/abs/1607.06450; Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467
struct Norm {
  enum class Kind : uint8_t { kLayer, kRms };

  Kind kind = Kind::kLayer;
  at::Tensor gain;
  at::Tensor bias;  // kLayer only; undefined: none
  double epsilon = 1e-12;

  // In the input's type.
  at::Tensor Forward(const at::Tensor& x) const;
};

}  // namespace tributary
