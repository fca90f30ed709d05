// One convolution with its batch norm folded in and its activation or residual fused. Used by the convolutional image
// families (encode/image_families).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {

struct ConvolutionShape {
  // kNone: none, or the input carries it already. kHalf: kernel / 2 on every side. kSame: TensorFlow's "same": where
  // the total is odd, the extra row and column are at the bottom and right.
  enum class Padding : uint8_t { kNone, kHalf, kSame };

  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t groups = 1;
  // Of the input, pixels.
  int64_t height = 0;
  int64_t width = 0;
  Padding padding = Padding::kHalf;

  // Of the output, pixels.
  int64_t OutHeight() const { return OutSide(height); }
  int64_t OutWidth() const { return OutSide(width); }
  int64_t OutSide(int64_t side) const;
};

// y = act(conv(x) + bias), x [B, in_channels, height, width] channels_last in the compute type.
// On CPU oneDNN runs it with the activation or the residual in the same pass over weights laid out once, here. It
// builds one primitive per batch size and caches it for the process. Thread-safety: const methods from any thread.
// Errors of Forward*: LibTorch's exceptions; the program guards.
class Convolution {
 public:
  enum class Activation : uint8_t { kNone, kRelu, kRelu6 };

  // Empty, to be assigned to.
  Convolution() = default;
  // weight [out_channels, in_channels / groups, kernel, kernel], bias [out_channels]; any floating type.
  Convolution(const at::Tensor& weight, const at::Tensor& bias, const ConvolutionShape& shape, ComputeType type,
              const ProgramDevice& device);

  at::Tensor Forward(const at::Tensor& x, Activation activation = Activation::kNone) const;
  // act(conv(x) + bias + residual), `residual` of the result's shape; kNone or kRelu.
  at::Tensor ForwardAdd(const at::Tensor& x, const at::Tensor& residual,
                        Activation activation = Activation::kNone) const;

 private:
  at::Tensor weight_;  // channels_last, or oneDNN's own layout
  at::Tensor bias_;
  int64_t stride_ = 1;
  std::array<int64_t, 2> padding_ = {};  // above and below, left and right
  int64_t groups_ = 1;
  bool packed_ = false;
};

// Reads convolutions that a batch norm follows, as one. Keeps the first error and reads nothing after it.
// Thread-safety: none needed.
class BatchNormReader {
 public:
  // Names are those after `prefix`.
  BatchNormReader(const SafetensorsWeights& weights, std::string prefix, double epsilon, ComputeType type,
                  const ProgramDevice& device);

  // Tensors `<conv>.weight` and `<norm>.{weight,bias,running_mean,running_var}`. Empty after an error.
  Convolution Read(const std::string& conv, const std::string& norm, const ConvolutionShape& shape);

  const absl::Status& status() const { return status_; }
  uint64_t parameter_count() const { return parameter_count_; }  // of the convolutions and the norms' gains and biases
  uint64_t parameter_bytes() const { return parameter_bytes_; }  // folded, in the compute type

 private:
  at::Tensor Get(const std::string& name, const std::vector<int64_t>& shape);

  const SafetensorsWeights& weights_;
  const std::string prefix_;
  const double epsilon_;
  const ComputeType type_;
  const ProgramDevice device_;
  absl::Status status_;
  uint64_t parameter_count_ = 0;
  uint64_t parameter_bytes_ = 0;
};

}  // namespace tributary
