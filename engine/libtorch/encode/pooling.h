// From one vector per token to one per text.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

// hidden [T, D] of any floating type; positions int32 [T], from 0 in each sequence -> f32 [B, D * poolings], the
// poolings' vectors after each other. Computed in fp32; rows of no sequence are not read.
at::Tensor Pool(const std::vector<Pooling>& poolings, const at::Tensor& hidden, const at::Tensor& positions,
                const PackedSequences& sequences);

}  // namespace tributary
