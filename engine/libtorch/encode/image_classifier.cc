#include "engine/libtorch/encode/image_classifier.h"

#include <ATen/ops/linear.h>

namespace tributary {

at::Tensor ImageClassifier::Forward(const at::Tensor& pooled) const { return at::linear(pooled, weight, bias); }

}  // namespace tributary
