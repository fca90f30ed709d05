// What the first convolution takes of encoders that pad it: bytes made values. (Where nothing is padded, the values are
// in the weights: encode/image_patches.)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/libtorch/device/program_device.h"
#include "engine/prepare/image/image_preprocessing.h"

namespace tributary {

// Thread-safety: const methods from any thread. Errors: LibTorch's exceptions; the program guards.
class PixelValues {
 public:
  PixelValues(const ImagePreprocessing::PixelTransform& pixels, ComputeType type, const ProgramDevice& device);

  // u8 [B, H, W, 3] -> compute type [B, 3, padded_height, padded_width] with channels_last memory: byte * scale + shift
  // in fp32, then rounded; zero in the padding on the right and below. CUDA: one kernel of our own.
  at::Tensor Forward(const at::Tensor& images, int64_t padded_height, int64_t padded_width) const;

 private:
  [[maybe_unused]] const ImagePreprocessing::PixelTransform pixels_;  // for the kernel
  const at::ScalarType type_;
  const at::Tensor scale_;  // f32 [3]
  const at::Tensor shift_;
};

}  // namespace tributary
