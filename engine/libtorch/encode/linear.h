// A linear layer whose weight is laid out once, at load, the way the processor wants it. The bulk of every encoder's
// work.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/kernels/activation.h"
#include "engine/libtorch/kernels/int8_weight.h"

namespace tributary {

// From hidden_act of a config.json; nullopt: not one of ours.
std::optional<Activation> ActivationOf(std::string_view hidden_act);

// y = act(x W^T + b), x [T, in] -> y [T, out], in the compute type, accumulated in fp32. kInt8: x and y are f32, all
// of it is kernels/int8_weight's; on CPU only.
// Otherwise, on CPU oneDNN runs it with the activation or residual fused into the product: one primitive is built per T
// and cached for the process, so T must come from few buckets.
// Thread-safety: const methods from any thread. Errors: LibTorch's exceptions; the program guards.
class Linear {
 public:
  // Empty, to be assigned to.
  Linear() = default;
  // weight [out, in], bias [out] or undefined; any type, on any device. In int8 `in` is at most Int8Weight::kMaxInputs.
  Linear(const at::Tensor& weight, const at::Tensor& bias, ComputeType type, const ProgramDevice& device);

  at::Tensor Forward(const at::Tensor& x, Activation activation = Activation::kNone) const;
  // x W^T + b + residual; residual [T, out].
  at::Tensor ForwardAdd(const at::Tensor& x, const at::Tensor& residual) const;
  // (x W^T + b) * factor; factor [T, out].
  at::Tensor ForwardMultiply(const at::Tensor& x, const at::Tensor& factor) const;

 private:
  at::Tensor MultiplyInt8(const at::Tensor& x, const Int8Finish& finish) const;

  std::optional<Int8Weight> int8_;  // set: the rest is not
  bool packed_ = false;             // oneDNN's own layout, CPU only
  at::Tensor weight_;               // packed, or [out, in]
  std::optional<at::Tensor> bias_;
};

}  // namespace tributary
