#include "engine/libtorch/encode/efficientnet_pixels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#ifdef TRIBUTARY_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "engine/libtorch/kernels/padded_pixels.h"
#endif

namespace tributary {
namespace {

// What the reference makes of a pixel: (x - 127) / 128, exact in every compute type.
constexpr double kPixelMean = 127;
constexpr double kPixelScale = 128;

#ifdef TRIBUTARY_CUDA
PixelType PixelTypeOf(at::ScalarType type) {
  if (type == at::kHalf) return PixelType::kFp16;
  return type == at::kBFloat16 ? PixelType::kBf16 : PixelType::kFp32;
}
#endif

}  // namespace

at::Tensor EfficientNetPixels(const at::Tensor& images, int64_t padded_side, at::ScalarType type) {
  const int64_t batch = images.size(0);
  const int64_t side = images.size(1);
#ifdef TRIBUTARY_CUDA
  if (images.is_cuda()) {
    const at::Tensor x = at::empty({batch, padded_side, padded_side, 3}, images.options().dtype(type));
    const PaddedPixelsShape shape{.batch = batch,
                                  .side = side,
                                  .padded = padded_side,
                                  .mean = static_cast<float>(kPixelMean),
                                  .scale = static_cast<float>(kPixelScale)};
    LaunchPaddedPixels(images.const_data_ptr<uint8_t>(), shape, PixelTypeOf(type), x.mutable_data_ptr(),
                       c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return x.permute({0, 3, 1, 2});
  }
#endif
  // The padding starts as the pixel mean, so that it is zero after the same arithmetic as the pixels'.
  at::Tensor x = at::full({batch, padded_side, padded_side, 3}, kPixelMean, images.options().dtype(type));
  x.slice(1, 0, side).slice(2, 0, side).copy_(images);
  return x.sub_(kPixelMean).div_(kPixelScale).permute({0, 3, 1, 2});  // NCHW in name, channels_last in memory
}

}  // namespace tributary
