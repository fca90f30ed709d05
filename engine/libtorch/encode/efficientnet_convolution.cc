#include "engine/libtorch/encode/efficientnet_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "engine/libtorch/device/torch_device.h"

namespace tributary {
namespace {

// GlobalParams.batch_norm_epsilon of the reference.
constexpr double kEpsilon = 1e-3;
// oneDNN picks the weight layout for one batch size; it serves the others too.
constexpr int64_t kLayoutBatch = 4;

using Scalars = c10::List<std::optional<at::Scalar>>;

// These operators have no C++ header: they are reached by name.
at::Tensor ReorderWeight(const at::Tensor& weight, int64_t padding, int64_t stride, int64_t groups,
                         at::IntArrayRef input_size) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_convolution_weight", "")
                             .typed<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef,
                                               int64_t, at::OptionalIntArrayRef)>();
  return op.call(weight, {padding, padding}, {stride, stride}, {1, 1}, groups, input_size);
}

at::Tensor ConvolutionPointwise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t padding,
                                int64_t stride, int64_t groups, std::string_view activation, const Scalars& scalars) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_convolution_pointwise", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                               at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t,
                                               std::string_view, Scalars, std::optional<std::string_view>)>();
  return op.call(x, weight, bias, {padding, padding}, {stride, stride}, {1, 1}, groups, activation, scalars,
                 std::nullopt);
}

at::Tensor ConvolutionPointwiseAdd(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                                   const at::Tensor& bias, int64_t padding, int64_t stride, int64_t groups) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_convolution_pointwise", "binary")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t, std::string_view,
                            std::optional<at::Scalar>, std::optional<std::string_view>, Scalars,
                            std::optional<std::string_view>)>();
  // alpha 1 is the only one it takes; an empty one makes g++ 12 warn of uninitialised memory.
  return op.call(x, residual, weight, bias, {padding, padding}, {stride, stride}, {1, 1}, groups, "add",
                 at::Scalar(1.0), std::nullopt, Scalars(), std::nullopt);
}

}  // namespace

absl::StatusOr<FoldedConvolution> FoldedConvolution::Load(const SafetensorsWeights& weights, const std::string& conv,
                                                          const std::string& norm, const ConvolutionShape& shape,
                                                          ComputeType type, const ProgramDevice& device) {
  const int64_t group_channels = shape.in_channels / shape.groups;
  auto kernel = weights.Get(conv + ".weight", {shape.out_channels, group_channels, shape.kernel, shape.kernel});
  if (!kernel.ok()) return kernel.status();
  std::array<at::Tensor, 4> norms;
  constexpr std::array<std::string_view, 4> kNormNames = {".weight", ".bias", ".running_mean", ".running_var"};
  for (size_t i = 0; i < norms.size(); ++i) {
    auto tensor = weights.Get(norm + std::string(kNormNames[i]), {shape.out_channels});
    if (!tensor.ok()) return tensor.status();
    norms[i] = tensor->to(at::kDouble);
  }
  const auto& [gain, bias, mean, variance] = norms;

  FoldedConvolution folded;
  folded.parameter_count_ = static_cast<uint64_t>(kernel->numel() + 2 * shape.out_channels);
  folded.parameter_bytes_ =
      static_cast<uint64_t>(kernel->numel() + shape.out_channels) * c10::elementSize(TorchType(type));
  folded.stride_ = shape.stride;
  folded.groups_ = shape.groups;
  // In double: folding must not cost accuracy before the one rounding to the compute type.
  const at::Tensor scale = gain / (variance + kEpsilon).sqrt();
  at::Tensor weight = kernel->to(at::kDouble) * scale.view({-1, 1, 1, 1});
  if (!shape.padded_input) {
    const int64_t out_side = (shape.in_side + shape.stride - 1) / shape.stride;
    const int64_t total = std::max<int64_t>((out_side - 1) * shape.stride + shape.kernel - shape.in_side, 0);
    folded.padding_ = (total + 1) / 2;
    // An odd total: pad both sides alike and let the kernel's new first row and column, which are zero, fall on the
    // padding too much. Cheaper than copying the input into a larger one.
    if (total % 2 != 0) weight = at::constant_pad_nd(weight, {1, 0, 1, 0});
  }
  const auto place = TorchDevice(device);
  folded.weight_ = weight.to(place, TorchType(type)).contiguous(at::MemoryFormat::ChannelsLast);
  folded.bias_ = (bias - mean * scale).to(place, TorchType(type));
  folded.packed_ = device.kind == DeviceKind::kCpu;
  if (folded.packed_) {
    folded.weight_ = ReorderWeight(folded.weight_, folded.padding_, folded.stride_, folded.groups_,
                                   {kLayoutBatch, shape.in_channels, shape.in_side, shape.in_side});
  }
  return folded;
}

at::Tensor FoldedConvolution::Forward(const at::Tensor& x) const {
  if (packed_) return ConvolutionPointwise(x, weight_, bias_, padding_, stride_, groups_, "none", Scalars());
  return at::conv2d(x, weight_, bias_, at::IntArrayRef{stride_, stride_}, at::IntArrayRef{padding_, padding_},
                    at::IntArrayRef{1, 1}, groups_);
}

at::Tensor FoldedConvolution::ForwardRelu6(const at::Tensor& x) const {
  if (packed_) {
    static const Scalars kBounds({at::Scalar(0.0), at::Scalar(6.0)});
    return ConvolutionPointwise(x, weight_, bias_, padding_, stride_, groups_, "hardtanh", kBounds);
  }
  return Forward(x).clamp_(0, 6);
}

at::Tensor FoldedConvolution::ForwardAdd(const at::Tensor& x, const at::Tensor& residual) const {
  if (packed_) return ConvolutionPointwiseAdd(x, residual, weight_, bias_, padding_, stride_, groups_);
  return Forward(x).add_(residual);
}

}  // namespace tributary
