// From one vector per token to one per text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

// hidden [T, D] of any floating type; positions int32 [T], from 0 in each sequence -> f32 [B, D * poolings], the
// poolings' vectors after each other. Computed in fp32; rows of no sequence are not read.
at::Tensor Pool(const std::vector<Pooling>& poolings, const at::Tensor& hidden, const at::Tensor& positions,
                const PackedSequences& sequences);

// The end of a text, by its id.
struct EndToken {
  int64_t id = 0;
  // Whatever the id, the token of the largest one. CLIP's first configurations name a wrong id, and its end token has
  // the last place of the vocabulary.
  bool is_largest = false;
};

// hidden [T, D] of any floating type; ids, positions int32 [T] -> f32 [B, D], the states of the first such token of
// each text; of the text's first token where there is none.
at::Tensor PoolEndToken(const EndToken& end, const at::Tensor& hidden, const at::Tensor& ids,
                        const at::Tensor& positions, const PackedSequences& sequences);

}  // namespace tributary
