// Rotary position embedding: queries and keys are turned by an angle that grows with the position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {

// The angles of one batch's rows: f32 [T, 1, D/2] each. Computed once a batch, used by every layer.
struct RotaryAngles {
  at::Tensor cosine;
  at::Tensor sine;
};

// Component i and i + D/2 of a head form a pair ("rotate half", not interleaved); pair i turns by
// position * theta^(-2i/D). Source: Su et al. 2021, https://arxiv.org/abs/2104.09864
class Rotary {
 public:
  Rotary(const RotaryConfig& config, int64_t head_size, const ProgramDevice& device);

  RotaryAngles Angles(const at::Tensor& positions) const;

 private:
  at::Tensor frequencies_;  // f32 [D/2]
};

// x [T, heads, D] turned, in its own type.
at::Tensor Rotate(const at::Tensor& x, const RotaryAngles& angles);

}  // namespace tributary
