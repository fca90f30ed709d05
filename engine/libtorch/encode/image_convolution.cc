#include "engine/libtorch/encode/image_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"

namespace tributary {
namespace {

// oneDNN picks the weight layout for one batch size; it serves the others too.
constexpr int64_t kLayoutBatch = 4;

using Scalars = c10::List<std::optional<at::Scalar>>;

// These operators have no C++ header: they are reached by name.
at::Tensor ReorderWeight(const at::Tensor& weight, at::IntArrayRef padding, int64_t stride, int64_t groups,
                         at::IntArrayRef input_size) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_convolution_weight", "")
                             .typed<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef,
                                               int64_t, at::OptionalIntArrayRef)>();
  return op.call(weight, padding, {stride, stride}, {1, 1}, groups, input_size);
}

at::Tensor ConvolutionPointwise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                at::IntArrayRef padding, int64_t stride, int64_t groups, std::string_view activation,
                                const Scalars& scalars) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_convolution_pointwise", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                               at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t,
                                               std::string_view, Scalars, std::optional<std::string_view>)>();
  return op.call(x, weight, bias, padding, {stride, stride}, {1, 1}, groups, activation, scalars, std::nullopt);
}

// activation: what follows the sum; nullopt: nothing.
at::Tensor ConvolutionPointwiseAdd(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                                   const at::Tensor& bias, at::IntArrayRef padding, int64_t stride, int64_t groups,
                                   std::optional<std::string_view> activation) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_convolution_pointwise", "binary")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t, std::string_view,
                            std::optional<at::Scalar>, std::optional<std::string_view>, Scalars,
                            std::optional<std::string_view>)>();
  // alpha 1 is the only one it takes; an empty one makes g++ 12 warn of uninitialised memory.
  return op.call(x, residual, weight, bias, padding, {stride, stride}, {1, 1}, groups, "add", at::Scalar(1.0),
                 activation, Scalars(), std::nullopt);
}

// All of TensorFlow's "same" padding along one side of the input.
int64_t SamePadding(const ConvolutionShape& shape, int64_t side) {
  return std::max<int64_t>((shape.OutSide(side) - 1) * shape.stride + shape.kernel - side, 0);
}

}  // namespace

int64_t ConvolutionShape::OutSide(int64_t side) const {
  switch (padding) {
    case Padding::kNone:
      return (side - kernel) / stride + 1;
    case Padding::kHalf:
      return (side + kernel / 2 * 2 - kernel) / stride + 1;
    case Padding::kSame:
      return (side + stride - 1) / stride;
  }
  return side;
}

Convolution::Convolution(const at::Tensor& weight, const at::Tensor& bias, const ConvolutionShape& shape,
                         ComputeType type, const ProgramDevice& device)
    : stride_(shape.stride), groups_(shape.groups), packed_(device.kind == DeviceKind::kCpu) {
  at::Tensor kernel = weight;
  if (shape.padding == ConvolutionShape::Padding::kHalf) padding_ = {shape.kernel / 2, shape.kernel / 2};
  if (shape.padding == ConvolutionShape::Padding::kSame) {
    const int64_t high = SamePadding(shape, shape.height);
    const int64_t wide = SamePadding(shape, shape.width);
    padding_ = {(high + 1) / 2, (wide + 1) / 2};
    // An odd total: pad both sides alike and let the kernel's new first row and column, which are zero, fall on the
    // padding too much. Cheaper than copying the input into a larger one.
    if (high % 2 != 0 || wide % 2 != 0) kernel = at::constant_pad_nd(kernel, {wide % 2, 0, high % 2, 0});
  }
  const auto place = TorchDevice(device);
  weight_ = kernel.to(place, TorchType(type)).contiguous(at::MemoryFormat::ChannelsLast);
  bias_ = bias.to(place, TorchType(type), /*non_blocking=*/false, /*copy=*/true);
  if (packed_) {
    weight_ = ReorderWeight(weight_, padding_, stride_, groups_,
                            {kLayoutBatch, shape.in_channels, shape.height, shape.width});
  } else if (weight_.is_alias_of(weight)) {
    weight_ = weight_.clone();  // do not leave it in the mapped file
  }
}

at::Tensor Convolution::Forward(const at::Tensor& x, Activation activation) const {
  if (packed_) {
    static const Scalars kBounds({at::Scalar(0.0), at::Scalar(6.0)});
    switch (activation) {
      case Activation::kNone:
        return ConvolutionPointwise(x, weight_, bias_, padding_, stride_, groups_, "none", Scalars());
      case Activation::kRelu:
        return ConvolutionPointwise(x, weight_, bias_, padding_, stride_, groups_, "relu", Scalars());
      case Activation::kRelu6:
        return ConvolutionPointwise(x, weight_, bias_, padding_, stride_, groups_, "hardtanh", kBounds);
    }
  }
  const at::Tensor y =
      at::conv2d(x, weight_, bias_, at::IntArrayRef{stride_, stride_}, padding_, at::IntArrayRef{1, 1}, groups_);
  if (activation == Activation::kRelu) return y.relu_();
  return activation == Activation::kRelu6 ? y.clamp_(0, 6) : y;
}

at::Tensor Convolution::ForwardAdd(const at::Tensor& x, const at::Tensor& residual, Activation activation) const {
  const bool relu = activation == Activation::kRelu;
  if (packed_) {
    return ConvolutionPointwiseAdd(x, residual, weight_, bias_, padding_, stride_, groups_,
                                   relu ? std::optional<std::string_view>("relu") : std::nullopt);
  }
  const at::Tensor y = Forward(x).add_(residual);
  return relu ? y.relu_() : y;
}

BatchNormReader::BatchNormReader(const SafetensorsWeights& weights, std::string prefix, double epsilon,
                                 ComputeType type, const ProgramDevice& device)
    : weights_(weights), prefix_(std::move(prefix)), epsilon_(epsilon), type_(type), device_(device) {}

at::Tensor BatchNormReader::Get(const std::string& name, const std::vector<int64_t>& shape) {
  if (!status_.ok()) return {};
  auto tensor = weights_.GetFloats(prefix_ + name, shape);
  if (!tensor.ok()) {
    status_ = tensor.status();
    return {};
  }
  // In double: folding must not cost accuracy before the one rounding to the compute type.
  return tensor->to(at::kDouble);
}

Convolution BatchNormReader::Read(const std::string& conv, const std::string& norm, const ConvolutionShape& shape) {
  const at::Tensor kernel =
      Get(conv + ".weight", {shape.out_channels, shape.in_channels / shape.groups, shape.kernel, shape.kernel});
  const at::Tensor gain = Get(norm + ".weight", {shape.out_channels});
  const at::Tensor bias = Get(norm + ".bias", {shape.out_channels});
  const at::Tensor mean = Get(norm + ".running_mean", {shape.out_channels});
  const at::Tensor variance = Get(norm + ".running_var", {shape.out_channels});
  if (!status_.ok()) return {};
  parameter_count_ += static_cast<uint64_t>(kernel.numel() + 2 * shape.out_channels);
  parameter_bytes_ += static_cast<uint64_t>(kernel.numel() + shape.out_channels) * c10::elementSize(TorchType(type_));
  const at::Tensor scale = gain / (variance + epsilon_).sqrt();
  return Convolution(kernel * scale.view({-1, 1, 1, 1}), bias - mean * scale, shape, type_, device_);
}

}  // namespace tributary
