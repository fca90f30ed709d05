#include "engine/libtorch/encode/rotary.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "engine/libtorch/device/torch_device.h"

namespace tributary {

Rotary::Rotary(const RotaryConfig& config, int64_t head_size, const ProgramDevice& device) {
  const int64_t pairs = head_size / 2;
  at::Tensor frequencies = at::empty({pairs}, at::kFloat);
  auto* const values = frequencies.mutable_data_ptr<float>();
  const auto size = static_cast<float>(head_size);
  // In float, as the references do: at position 8000 the last bit of a frequency is 0.0005 of a turn's radian.
  const auto base = static_cast<float>(config.theta * config.ntk_factor);
  const float shrink = std::pow(static_cast<float>(config.ntk_factor), 2.0F / size);
  for (int64_t i = 0; i < pairs; ++i) {
    values[i] = 1.0F / std::pow(base, static_cast<float>(2 * i) / size) / shrink;
  }
  frequencies_ = frequencies.to(TorchDevice(device));
}

RotaryAngles Rotary::Angles(const at::Tensor& positions) const {
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1).mul(frequencies_).unsqueeze(1);
  return {.cosine = angles.cos(), .sine = angles.sin()};
}

at::Tensor Rotate(const at::Tensor& x, const RotaryAngles& angles) {
  const int64_t pairs = angles.cosine.size(-1);
  const at::Tensor first = x.narrow(-1, 0, pairs);
  const at::Tensor second = x.narrow(-1, pairs, pairs);
  const at::Tensor turned_first = first.mul(angles.cosine).sub_(second.mul(angles.sine));
  const at::Tensor turned_second = second.mul(angles.cosine).add_(first.mul(angles.sine));
  return at::cat({turned_first, turned_second}, -1).to(x.scalar_type());
}

}  // namespace tributary
