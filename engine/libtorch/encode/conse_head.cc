#include "engine/libtorch/encode/conse_head.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <tuple>

#include "engine/libtorch/device/torch_device.h"

namespace tributary {

ConseHead::ConseHead(const LabelVectors& labels, int64_t top_classes, const ProgramDevice& device)
    : top_classes_(top_classes),
      labels_(at::from_blob(const_cast<float*>(labels.values.data()),
                            {static_cast<int64_t>(labels.classes), static_cast<int64_t>(labels.dimension)}, at::kFloat)
                  .to(TorchDevice(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true)) {}

at::Tensor ConseHead::Forward(const at::Tensor& logits) const {
  const auto [probabilities, classes] = at::topk(at::softmax(logits, 1), top_classes_, 1);
  const at::Tensor weights = probabilities / probabilities.sum(1, /*keepdim=*/true);
  const at::Tensor rows = labels_.index_select(0, classes.flatten()).view({logits.size(0), top_classes_, -1});
  return at::bmm(weights.unsqueeze(1), rows).squeeze(1);
}

}  // namespace tributary
