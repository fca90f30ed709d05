// From one vector per token to one per text.
#pragma once

#include <ATen/core/Tensor.h>

#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

// hidden [T, D] of any floating type -> f32 [B, D], computed in fp32; rows of no sequence are not read.
at::Tensor Pool(Pooling pooling, const at::Tensor& hidden, const PackedSequences& sequences);

}  // namespace tributary
