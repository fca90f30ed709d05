// From class scores to a vector of the text space. The last step of encode/image_program.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/conse_labels.h"

namespace tributary {

// The probabilities of the k most likely classes, scaled to sum to one, weight those classes' label vectors.
// Thread-safety: const methods from any thread. Errors: LibTorch's exceptions; the program guards.
// Source: Norouzi et al. 2014, Zero-Shot Learning by Convex Combination of Semantic Embeddings,
//   https://arxiv.org/abs/1312.5650.
class ConseHead {
 public:
  ConseHead(const LabelVectors& labels, int64_t top_classes, const ProgramDevice& device);

  // logits f32 [B, classes] -> f32 [B, dimension], not normalised.
  at::Tensor Forward(const at::Tensor& logits) const;

 private:
  int64_t top_classes_;
  at::Tensor labels_;  // f32 [classes, dimension]
};

}  // namespace tributary
