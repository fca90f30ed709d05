// One convolution of an EfficientNet with its batch norm folded in and its activation or residual fused. Used by
// encode/efficientnet_lite0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {

struct ConvolutionShape {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t groups = 1;
  int64_t in_side = 0;        // of the square input, pixels
  bool padded_input = false;  // the input carries its padding already
};

// y = act(batch_norm(conv(x))), x [B, in_channels, side, side] channels_last in the compute type, "same" padding as
// TensorFlow's: where the total is odd, the extra row and column are at the bottom and right.
// On CPU oneDNN runs it with the activation or the residual in the same pass over weights laid out once, here. It
// builds one primitive per batch size and caches it for the process. Thread-safety: const methods from any thread.
// Errors of Forward*: LibTorch's exceptions; the program guards.
class FoldedConvolution {
 public:
  // Tensors `<conv>.weight` and `<norm>.{weight,bias,running_mean,running_var}`. NOT_FOUND / INVALID_ARGUMENT by name.
  static absl::StatusOr<FoldedConvolution> Load(const SafetensorsWeights& weights, const std::string& conv,
                                                const std::string& norm, const ConvolutionShape& shape,
                                                ComputeType type, const ProgramDevice& device);

  at::Tensor Forward(const at::Tensor& x) const;
  at::Tensor ForwardRelu6(const at::Tensor& x) const;
  // No activation, plus `residual`, which has the result's shape.
  at::Tensor ForwardAdd(const at::Tensor& x, const at::Tensor& residual) const;

  uint64_t parameter_count() const { return parameter_count_; }  // of the convolution and the norm's gain and bias
  uint64_t parameter_bytes() const { return parameter_bytes_; }  // folded, in the compute type

 private:
  FoldedConvolution() = default;

  at::Tensor weight_;  // channels_last, or oneDNN's own layout
  at::Tensor bias_;
  int64_t stride_ = 1;
  int64_t padding_ = 0;
  int64_t groups_ = 1;
  bool packed_ = false;
  uint64_t parameter_count_ = 0;
  uint64_t parameter_bytes_ = 0;
};

}  // namespace tributary
