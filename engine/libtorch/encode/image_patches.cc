#include "engine/libtorch/encode/image_patches.h"

#include <ATen/ops/tensor.h>

#include <array>

#include "engine/libtorch/device/torch_device.h"

namespace tributary {
namespace {

constexpr double kMiddle = 128;

// f64 [1, 3, 1, 1]
at::Tensor PerChannel(const std::array<float, 3>& values) {
  return at::tensor({double{values[0]}, double{values[1]}, double{values[2]}}, at::kDouble).view({1, 3, 1, 1});
}

}  // namespace

PatchEmbedding::PatchEmbedding(const at::Tensor& kernel, const at::Tensor& bias,
                               const ImagePreprocessing::PixelTransform& pixels, ComputeType type,
                               const ProgramDevice& device)
    : patch_height_(kernel.size(2)), patch_width_(kernel.size(3)), type_(TorchType(type)) {
  // In double: folding must not cost accuracy before the one rounding to the compute type.
  const at::Tensor exact = kernel.to(at::kDouble);
  const at::Tensor scale = PerChannel(pixels.scale);
  at::Tensor offset = exact.mul(PerChannel(pixels.shift).add(scale, kMiddle)).sum({1, 2, 3});
  if (bias.defined()) offset = offset.add(bias);
  offset_ = offset.to(TorchDevice(device), at::kFloat);
  // As the patches lie in memory: row, column, channel.
  const at::Tensor weight = exact.mul(scale).permute({0, 2, 3, 1}).reshape({kernel.size(0), -1});
  product_ = Linear(weight, {}, type, device);
}

at::Tensor PatchEmbedding::Forward(const at::Tensor& pixels) const {
  const int64_t batch = pixels.size(0);
  const int64_t rows = pixels.size(1) / patch_height_;
  const int64_t columns = pixels.size(2) / patch_width_;
  // Gathered while they are bytes.
  const at::Tensor patches = pixels.narrow(1, 0, rows * patch_height_)
                                 .narrow(2, 0, columns * patch_width_)
                                 .unfold(1, patch_height_, patch_height_)
                                 .unfold(2, patch_width_, patch_width_)  // [B, rows, columns, 3, height, width]
                                 .permute({0, 1, 2, 4, 5, 3})
                                 .reshape({batch * rows * columns, -1});
  return product_.Forward(patches.to(type_).sub_(kMiddle));
}

}  // namespace tributary
