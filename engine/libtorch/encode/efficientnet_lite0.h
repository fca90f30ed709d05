// EfficientNet-Lite0, an image classifier over the 1,000 classes of ImageNet. Run by encode/image_program.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/efficientnet_convolution.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {

// Shapes: images u8 [B, 224, 224, 3] RGB -> logits f32 [B, 1000].
// Convolutions run in the compute type; pooling and the classifier in fp32.
// Thread-safety: Forward from any thread. Errors of Forward: LibTorch's exceptions; the program guards.
// Source: Tan & Le 2019, https://arxiv.org/abs/1905.11946, Lite variant of tensorflow/tpu
//   (models/official/efficientnet/lite); tensor names of the PyPI package efficientnet_lite_pytorch.
class EfficientNetLite0 {
 public:
  static constexpr int64_t kImageSize = 224;
  static constexpr int64_t kClasses = 1000;

  // INVALID_ARGUMENT / NOT_FOUND naming file and tensor.
  static absl::StatusOr<EfficientNetLite0> Load(const SafetensorsWeights& weights, ComputeType type,
                                                const ProgramDevice& device);

  at::Tensor Forward(const at::Tensor& images) const;

  uint64_t parameter_count() const { return parameter_count_; }
  uint64_t parameter_bytes() const { return parameter_bytes_; }

 private:
  // MBConv without squeeze-and-excitation: widen, filter each channel, narrow, add the input where shapes allow.
  struct Block {
    std::optional<FoldedConvolution> expand;
    FoldedConvolution depthwise;
    FoldedConvolution project;
    bool residual = false;
  };

  EfficientNetLite0(FoldedConvolution stem, FoldedConvolution head) : stem_(std::move(stem)), head_(std::move(head)) {}

  at::ScalarType type_ = at::kFloat;
  FoldedConvolution stem_;
  std::vector<Block> blocks_;
  FoldedConvolution head_;
  at::Tensor classifier_weight_;  // f32 [1000, 1280]
  at::Tensor classifier_bias_;    // f32 [1000]
  uint64_t parameter_count_ = 0;
  uint64_t parameter_bytes_ = 0;
};

}  // namespace tributary
