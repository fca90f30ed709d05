#include "engine/libtorch/encode/image_pixels.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "engine/libtorch/device/torch_device.h"

#ifdef TRIBUTARY_CUDA
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "engine/libtorch/kernels/padded_pixels.h"
#endif

namespace tributary {
namespace {

at::Tensor PerChannel(const std::array<float, 3>& values, const ProgramDevice& device) {
  return at::tensor(at::ArrayRef<float>(values.data(), values.size()), at::kFloat).to(TorchDevice(device));
}

#ifdef TRIBUTARY_CUDA
PixelType PixelTypeOf(at::ScalarType type) {
  if (type == at::kHalf) return PixelType::kFp16;
  return type == at::kBFloat16 ? PixelType::kBf16 : PixelType::kFp32;
}
#endif

}  // namespace

PixelValues::PixelValues(const ImagePreprocessing::PixelTransform& pixels, ComputeType type,
                         const ProgramDevice& device)
    : pixels_(pixels),
      type_(TorchType(type)),
      scale_(PerChannel(pixels.scale, device)),
      shift_(PerChannel(pixels.shift, device)) {}

at::Tensor PixelValues::Forward(const at::Tensor& images, int64_t padded_height, int64_t padded_width) const {
  const int64_t batch = images.size(0);
  const int64_t height = images.size(1);
  const int64_t width = images.size(2);
#ifdef TRIBUTARY_CUDA
  if (images.is_cuda()) {
    const at::Tensor x = at::empty({batch, padded_height, padded_width, 3}, images.options().dtype(type_));
    const PaddedPixelsShape shape{.batch = batch,
                                  .height = height,
                                  .width = width,
                                  .padded_height = padded_height,
                                  .padded_width = padded_width,
                                  .scale = {pixels_.scale[0], pixels_.scale[1], pixels_.scale[2]},
                                  .shift = {pixels_.shift[0], pixels_.shift[1], pixels_.shift[2]}};
    LaunchPaddedPixels(images.const_data_ptr<uint8_t>(), shape, PixelTypeOf(type_), x.mutable_data_ptr(),
                       c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return x.permute({0, 3, 1, 2});
  }
#endif
  at::Tensor x = images.to(at::kFloat).mul_(scale_).add_(shift_);
  if (padded_height != height || padded_width != width) {
    const at::Tensor padded = at::zeros({batch, padded_height, padded_width, 3}, x.options().dtype(type_));
    padded.narrow(1, 0, height).narrow(2, 0, width).copy_(x);
    x = padded;
  }
  return x.to(type_).permute({0, 3, 1, 2});  // NCHW in name, channels_last in memory
}

}  // namespace tributary
