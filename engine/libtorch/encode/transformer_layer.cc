#include "engine/libtorch/encode/transformer_layer.h"

namespace tributary {

at::Tensor SelfAttention::Context(const at::Tensor& x, const PackedSequences& sequences,
                                  const RotaryAngles* angles) const {
  const int64_t heads = options.heads;
  const int64_t shared = options.key_value_heads;
  const at::Tensor packed = qkv.Forward(x).view({x.size(0), heads + 2 * shared, options.head_size});
  at::Tensor query_key = packed.narrow(1, 0, heads + shared);
  if (head_norm) query_key = head_norm->Forward(query_key);
  if (angles != nullptr) query_key = Rotate(query_key, *angles);
  return PackedAttention(query_key.narrow(1, 0, heads), query_key.narrow(1, heads, shared),
                         packed.narrow(1, heads + shared, shared), sequences, options);
}

at::Tensor FeedForward::Inner(const at::Tensor& x) const {
  return gate ? up.ForwardMultiply(x, gate->Forward(x, activation)) : up.Forward(x, activation);
}

}  // namespace tributary
