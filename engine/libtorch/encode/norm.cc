#include "engine/libtorch/encode/norm.h"

#include <ATen/ops/layer_norm.h>

#include <optional>

namespace tributary {

at::Tensor Norm::Forward(const at::Tensor& x) const {
  if (kind == Kind::kLayer) {
    return at::layer_norm(x, {x.size(-1)}, gain, bias.defined() ? std::optional(bias) : std::nullopt, epsilon);
  }
  const at::Tensor exact = x.to(at::kFloat);
  const at::Tensor scale = exact.square().mean({-1}, /*keepdim=*/true).add_(epsilon).rsqrt_();
  return exact.mul(scale).mul_(gain).to(x.scalar_type());
}

}  // namespace tributary
