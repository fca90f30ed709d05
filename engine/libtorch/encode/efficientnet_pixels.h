// What EfficientNet-Lite0's first convolution takes, made of raw pixels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tributary {

// u8 [B, S, S, 3] -> `type` [B, 3, P, P] with channels_last memory: (x - 127) / 128 as the reference has it, zero in
// the padding on the right and below. CUDA: one kernel of our own.
at::Tensor EfficientNetPixels(const at::Tensor& images, int64_t padded_side, at::ScalarType type);

}  // namespace tributary
