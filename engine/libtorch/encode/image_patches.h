// The first layer of image encoders that cut the image into patches: a convolution whose stride is its kernel, run as
// one product over all patches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/linear.h"
#include "engine/prepare/image/image_preprocessing.h"

namespace tributary {

// The normalising of pixels is in the weights, which is exact here, where nothing is padded: for bytes u,
//   W (u * scale + shift) + b  =  (W * scale) (u - 128)  +  (b + W (shift + 128 * scale)).
// u - 128 is exact in fp16 and bf16, and about as small as normalised values are: rounding W * scale costs no more than
// rounding W.
// Rows and columns of pixels that fill no patch are left out, as the convolution leaves them out.
// Thread-safety: const methods from any thread. Errors: LibTorch's exceptions; the program guards.
class PatchEmbedding {
 public:
  // Empty, to be assigned to.
  PatchEmbedding() = default;
  // kernel [H, 3, patch height, patch width], bias [H] or undefined, of any floating type.
  PatchEmbedding(const at::Tensor& kernel, const at::Tensor& bias, const ImagePreprocessing::PixelTransform& pixels,
                 ComputeType type, const ProgramDevice& device);

  // u8 [B, height, width, 3] -> compute type [B * rows * columns, H], without the offset.
  at::Tensor Forward(const at::Tensor& pixels) const;
  // f32 [H], on the device: belongs to every patch. The encoders add it to their positions once.
  const at::Tensor& offset() const { return offset_; }

 private:
  int64_t patch_height_ = 0;
  int64_t patch_width_ = 0;
  at::ScalarType type_ = at::kFloat;
  Linear product_;
  at::Tensor offset_;
};

}  // namespace tributary
