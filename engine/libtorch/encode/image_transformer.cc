#include "engine/libtorch/encode/image_transformer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <utility>

namespace tributary {
namespace {

// sum + layer(x). Where both are fp32 the product adds it itself.
at::Tensor Add(const Linear& layer, const at::Tensor& x, const at::Tensor& sum) {
  return x.scalar_type() == at::kFloat ? layer.ForwardAdd(x, sum) : sum.add_(layer.Forward(x));
}

}  // namespace

ImageTransformer::ImageTransformer(const ImageEncoderInfo& info, ImageClassifier classifier,
                                   ImageTransformerParts parts)
    : ImageEncoder(info, std::move(classifier)), parts_(std::move(parts)) {}

at::Tensor ImageTransformer::Hidden(const at::Tensor& pixels) const {
  const int64_t batch = pixels.size(0);
  const int64_t patches = parts_.positions.size(0);
  const int64_t first = parts_.first_tokens.defined() ? parts_.first_tokens.size(0) : 0;
  const int64_t tokens = first + patches;
  const int64_t width = parts_.positions.size(1);

  const at::Tensor embedded = at::empty({batch, tokens, width}, parts_.positions.options());
  if (first > 0) embedded.narrow(1, 0, first).copy_(parts_.first_tokens);
  embedded.narrow(1, first, patches)
      .copy_(parts_.patches.Forward(pixels).view({batch, patches, width}))
      .add_(parts_.positions);
  at::Tensor sum = embedded.view({batch * tokens, width});
  if (parts_.embedding_norm) sum = parts_.embedding_norm->Forward(sum);

  const std::vector<uint32_t> lengths(static_cast<size_t>(batch), static_cast<uint32_t>(tokens));
  PackedSequences images{.lengths = lengths, .cu_seqlens = {}};
  if (pixels.is_cuda()) {
    images.cu_seqlens = at::arange(0, (batch + 1) * tokens, tokens, pixels.options().dtype(at::kInt));
  }
  for (const ImageTransformerLayer& layer : parts_.layers) {
    const at::Tensor normed = layer.attention_norm.Forward(sum).to(parts_.type);
    sum = Add(layer.attention.output, layer.attention.Context(normed, images, nullptr), sum);
    const at::Tensor inner = layer.feed_forward.Inner(layer.feed_forward_norm.Forward(sum).to(parts_.type));
    sum = Add(layer.feed_forward.down, inner, sum);
  }
  return sum.view({batch, tokens, width});
}

at::Tensor ImageTransformer::Pool(const at::Tensor& hidden) const { return parts_.pooling->Forward(hidden); }

}  // namespace tributary
