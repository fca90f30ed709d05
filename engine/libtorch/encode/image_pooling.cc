#include "engine/libtorch/encode/image_pooling.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <optional>
#include <utility>

namespace tributary {

at::Tensor PooledLinear::Forward(const at::Tensor& pooled) const {
  if (!weight.defined()) return pooled;
  const at::Tensor result = at::linear(pooled, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  return tanh ? result.tanh() : result;
}

ClassTokenPooling::ClassTokenPooling(Norm norm, PooledLinear linear)
    : norm_(std::move(norm)), linear_(std::move(linear)) {}

at::Tensor ClassTokenPooling::Forward(const at::Tensor& hidden) const {
  return linear_.Forward(norm_.Forward(hidden.select(1, 0)));
}

MeanTokenPooling::MeanTokenPooling(Norm norm) : norm_(std::move(norm)) {}

at::Tensor MeanTokenPooling::Forward(const at::Tensor& hidden) const { return norm_.Forward(hidden).mean({1}); }

AttentionPooling::AttentionPooling(AttentionPoolingParts parts) : parts_(std::move(parts)) {}

at::Tensor AttentionPooling::Forward(const at::Tensor& hidden) const {
  const int64_t batch = hidden.size(0);
  const int64_t tokens = hidden.size(1);
  const int64_t width = hidden.size(2);
  const int64_t head_size = width / parts_.heads;
  const at::Tensor normed = parts_.token_norm.Forward(hidden).to(parts_.type).view({batch * tokens, width});
  const at::Tensor key_value =
      parts_.key_value.Forward(normed).view({batch, tokens, 2, parts_.heads, head_size}).permute({2, 0, 3, 1, 4});
  const at::Tensor query = parts_.query.unsqueeze(0).expand({batch, parts_.heads, 1, head_size});
  const at::Tensor context =
      at::scaled_dot_product_attention(query, key_value.select(0, 0), key_value.select(0, 1)).reshape({batch, width});
  const at::Tensor attended = parts_.output.Forward(context).to(at::kFloat);
  const at::Tensor inner = parts_.feed_forward.Inner(parts_.feed_forward_norm.Forward(attended).to(parts_.type));
  return attended.add(parts_.feed_forward.down.Forward(inner));
}

}  // namespace tributary
