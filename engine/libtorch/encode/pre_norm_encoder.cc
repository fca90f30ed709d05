#include "engine/libtorch/encode/pre_norm_encoder.h"

#include <ATen/ops/index_select.h>

#include <utility>

namespace tributary {

PreNormEncoder::PreNormEncoder(const TextEncoderInfo& info, PreNormParts parts)
    : TextEncoder(info, std::move(parts.own_head)), parts_(std::move(parts)) {}

at::Tensor PreNormEncoder::Forward(const at::Tensor& ids, const at::Tensor& positions,
                                   const PackedSequences& sequences) const {
  at::Tensor sum = at::index_select(parts_.words, 0, ids).to(at::kFloat);
  if (parts_.embedding_scale != 1) sum.mul_(parts_.embedding_scale);
  if (parts_.positions.defined()) sum.add_(at::index_select(parts_.positions, 0, positions));
  if (parts_.embedding_norm) sum = parts_.embedding_norm->Forward(sum);

  std::vector<RotaryAngles> angles;
  angles.reserve(parts_.rotaries.size());
  for (const Rotary& rotary : parts_.rotaries) angles.push_back(rotary.Angles(positions));
  // What a half adds, in fp32 before its norm.
  const auto add = [&](const at::Tensor& branch, const std::optional<Norm>& norm) {
    sum.add_(norm ? norm->Forward(branch.to(at::kFloat)) : branch);
  };
  for (const PreNormLayer& layer : parts_.layers) {
    const at::Tensor normed = layer.attention_norm ? layer.attention_norm->Forward(sum) : sum;
    const RotaryAngles* const turned = angles.empty() ? nullptr : &angles[layer.rotary];
    const at::Tensor context = layer.attention.Context(normed.to(parts_.type), sequences, turned);
    add(layer.attention.output.Forward(context), layer.after_attention);
    const at::Tensor inner = layer.feed_forward.Inner(layer.feed_forward_norm.Forward(sum).to(parts_.type));
    add(layer.feed_forward.down.Forward(inner), layer.after_feed_forward);
  }
  return parts_.final_norm.Forward(sum);
}

}  // namespace tributary
