#include "engine/libtorch/encode/post_norm_encoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include <utility>

namespace tributary {
namespace {

// Where a token of `padding_id` is written in a text, it is not counted by the tokens after it. positions: from 0.
at::Tensor PositionsAfterPadding(const at::Tensor& ids, const at::Tensor& positions, int64_t padding_id) {
  const at::Tensor padding = ids.eq(padding_id);
  const at::Tensor so_far = padding.cumsum(0);  // over the whole batch, this row included
  const at::Tensor first_rows = at::arange(ids.size(0), positions.options().dtype(at::kLong)).sub_(positions);
  const at::Tensor before_text = so_far.sub(padding.to(at::kInt)).index_select(0, first_rows);
  const at::Tensor counted = positions.sub(so_far.sub(before_text)).add_(padding_id + 1);
  return counted.masked_fill(padding, padding_id);
}

}  // namespace

PostNormEncoder::PostNormEncoder(const TextEncoderInfo& info, PostNormParts parts)
    : TextEncoder(info), parts_(std::move(parts)) {}

at::Tensor PostNormEncoder::Forward(const at::Tensor& ids, const at::Tensor& positions,
                                    const PackedSequences& sequences) const {
  at::Tensor hidden = at::index_select(parts_.words, 0, ids).to(at::kFloat);
  if (parts_.positions.defined()) {
    hidden.add_(
        at::index_select(parts_.positions, 0,
                         parts_.padding_id ? PositionsAfterPadding(ids, positions, *parts_.padding_id) : positions));
  }
  if (parts_.token_type.defined()) hidden.add_(parts_.token_type);
  hidden = parts_.embedding_norm.Forward(hidden).to(parts_.type);

  std::optional<RotaryAngles> angles;
  if (parts_.rotary) angles = parts_.rotary->Angles(positions);
  for (const PostNormLayer& layer : parts_.layers) {
    const at::Tensor context = layer.attention.Context(hidden, sequences, angles ? &*angles : nullptr);
    hidden = layer.attention_norm.Forward(layer.attention.output.ForwardAdd(context, hidden));
    const at::Tensor inner = layer.feed_forward.Inner(hidden);
    hidden = layer.output_norm.Forward(layer.feed_forward.down.ForwardAdd(inner, hidden));
  }
  return hidden;
}

}  // namespace tributary
