#include "engine/libtorch/encode/pooling.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/segment_reduce.h>

namespace tributary {

at::Tensor Pool(Pooling pooling, const at::Tensor& hidden, const PackedSequences& sequences) {
  const at::Tensor& starts = sequences.cu_seqlens;
  if (pooling == Pooling::kCls) {
    return at::index_select(hidden, 0, starts.narrow(0, 0, starts.size(0) - 1)).to(at::kFloat);
  }
  // unsafe: the offsets are ours, and checking them would wait for the device.
  return at::segment_reduce(hidden.to(at::kFloat), pooling == Pooling::kMean ? "mean" : "max", /*lengths=*/{},
                            /*indices=*/{}, /*offsets=*/starts, /*axis=*/0, /*unsafe=*/true);
}

}  // namespace tributary
