#include "engine/libtorch/encode/linear.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "engine/libtorch/device/torch_device.h"

namespace tributary {
namespace {

// oneDNN picks the weight layout for one number of rows. The one picked for 256 suits every bucket from 16 to 512 rows:
// ONEDNN_VERBOSE showed no reorder of weights after load at any of them (AVX-512, fp32 and bf16).
constexpr int64_t kLayoutRows = 256;

// These operators have no C++ header: they are reached by name.
at::Tensor ReorderWeight(const at::Tensor& weight) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                             .typed<at::Tensor(const at::Tensor&, std::optional<int64_t>)>();
  return op.call(weight, kLayoutRows);
}

at::Tensor LinearPointwise(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           std::string_view activation, std::optional<std::string_view> algorithm) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                            c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>)>();
  return op.call(x, weight, bias, activation, c10::List<std::optional<at::Scalar>>(), algorithm);
}

// operation: add, mul.
at::Tensor LinearPointwiseBinary(const at::Tensor& x, const at::Tensor& other, const at::Tensor& weight,
                                 const std::optional<at::Tensor>& bias, std::string_view operation) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_linear_pointwise", "binary")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                               const std::optional<at::Tensor>&, std::string_view)>();
  return op.call(x, other, weight, bias, operation);
}

at::Tensor Activate(Activation activation, at::Tensor x) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kGelu:
      return at::gelu_(x, "none");
    case Activation::kGeluTanh:
      return at::gelu_(x, "tanh");
    case Activation::kRelu:
      return at::relu_(x);
    case Activation::kSilu:
      return at::silu_(x);
  }
  return x;
}

// What an int8 product is joined with, as the kernel reads it.
at::Tensor JoinedRows(const at::Tensor& other, const at::Tensor& x, const Int8Weight& weight) {
  TORCH_CHECK(other.dim() == 2 && other.size(0) == x.size(0) && other.size(1) == static_cast<int64_t>(weight.out()),
              "a product [", x.size(0), ", ", weight.out(), "], joined with ", other.sizes());
  return other.to(at::kFloat).contiguous();
}

}  // namespace

std::optional<Activation> ActivationOf(std::string_view hidden_act) {
  if (hidden_act == "gelu") return Activation::kGelu;
  if (hidden_act == "gelu_new" || hidden_act == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (hidden_act == "relu") return Activation::kRelu;
  if (hidden_act == "silu" || hidden_act == "swish") return Activation::kSilu;
  return std::nullopt;
}

Linear::Linear(const at::Tensor& weight, const at::Tensor& bias, ComputeType type, const ProgramDevice& device) {
  if (type == ComputeType::kInt8) {
    const at::Tensor values = weight.to(at::kCPU, at::kFloat).contiguous();
    const at::Tensor offsets = bias.defined() ? bias.to(at::kCPU, at::kFloat).contiguous() : at::Tensor();
    int8_.emplace(values.const_data_ptr<float>(), offsets.defined() ? offsets.const_data_ptr<float>() : nullptr,
                  static_cast<size_t>(values.size(0)), static_cast<size_t>(values.size(1)));
    return;
  }
  packed_ = device.kind == DeviceKind::kCpu;
  const auto place = TorchDevice(device);
  const auto dtype = TorchType(type);
  weight_ = weight.to(place, dtype);
  if (bias.defined()) bias_ = bias.to(place, dtype, /*non_blocking=*/false, /*copy=*/true);
  // A fresh layout is a copy already; without one, do not leave the weight in the mapped file.
  weight_ = packed_ ? ReorderWeight(weight_.contiguous()) : weight_.clone();
}

at::Tensor Linear::MultiplyInt8(const at::Tensor& x, const Int8Finish& finish) const {
  const at::Tensor rows = x.to(at::kFloat).contiguous();
  at::Tensor y = at::empty({rows.size(0), static_cast<int64_t>(int8_->out())}, rows.options());
  TORCH_CHECK(rows.size(1) == static_cast<int64_t>(int8_->in()), "a linear layer of ", int8_->in(), " inputs, rows of ",
              rows.size(1));
  int8_->Multiply(rows.const_data_ptr<float>(), static_cast<size_t>(rows.size(0)), y.mutable_data_ptr<float>(), finish);
  return y;
}

at::Tensor Linear::Forward(const at::Tensor& x, Activation activation) const {
  if (int8_) return MultiplyInt8(x, {.activation = activation});
  if (packed_) {
    switch (activation) {
      case Activation::kNone:
        return LinearPointwise(x, weight_, bias_, "none", std::nullopt);
      case Activation::kGelu:
        return LinearPointwise(x, weight_, bias_, "gelu", "none");
      case Activation::kGeluTanh:
        return LinearPointwise(x, weight_, bias_, "gelu", "tanh");
      case Activation::kRelu:
        return LinearPointwise(x, weight_, bias_, "relu", std::nullopt);
      case Activation::kSilu:
        return LinearPointwise(x, weight_, bias_, "swish", std::nullopt);
    }
  }
  return Activate(activation, at::linear(x, weight_, bias_));
}

at::Tensor Linear::ForwardAdd(const at::Tensor& x, const at::Tensor& residual) const {
  if (int8_) {
    const at::Tensor added = JoinedRows(residual, x, *int8_);
    return MultiplyInt8(x, {.add = added.const_data_ptr<float>()});
  }
  if (packed_) return LinearPointwiseBinary(x, residual, weight_, bias_, "add");
  return at::linear(x, weight_, bias_).add_(residual);
}

at::Tensor Linear::ForwardMultiply(const at::Tensor& x, const at::Tensor& factor) const {
  if (int8_) {
    const at::Tensor factors = JoinedRows(factor, x, *int8_);
    return MultiplyInt8(x, {.factor = factors.const_data_ptr<float>()});
  }
  if (packed_) return LinearPointwiseBinary(x, factor, weight_, bias_, "mul");
  return at::linear(x, weight_, bias_).mul_(factor);
}

}  // namespace tributary
