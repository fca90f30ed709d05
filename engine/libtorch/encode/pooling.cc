#include "engine/libtorch/encode/pooling.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/segment_reduce.h>

namespace tributary {
namespace {

at::Tensor Reduce(const char* how, const at::Tensor& rows, const at::Tensor& starts) {
  // unsafe: the offsets are ours, and checking them would wait for the device.
  return at::segment_reduce(rows.to(at::kFloat), how, /*lengths=*/{}, /*indices=*/{}, /*offsets=*/starts, /*axis=*/0,
                            /*unsafe=*/true);
}

at::Tensor PoolOne(Pooling pooling, const at::Tensor& hidden, const at::Tensor& positions, const at::Tensor& starts) {
  const int64_t texts = starts.size(0) - 1;
  const auto lengths = [&] { return starts.narrow(0, 1, texts).sub(starts.narrow(0, 0, texts)).unsqueeze(1); };
  switch (pooling) {
    case Pooling::kMean:
      return Reduce("mean", hidden, starts);
    case Pooling::kMax:
      return Reduce("max", hidden, starts);
    case Pooling::kCls:
      return at::index_select(hidden, 0, starts.narrow(0, 0, texts)).to(at::kFloat);
    case Pooling::kLastToken:
      return at::index_select(hidden, 0, starts.narrow(0, 1, texts).sub(1)).to(at::kFloat);
    case Pooling::kMeanSqrtLen:
      return Reduce("sum", hidden, starts).div_(lengths().to(at::kFloat).sqrt_());
    case Pooling::kWeightedMean: {
      const at::Tensor weights = positions.add(1).to(at::kFloat).unsqueeze(1);
      return Reduce("sum", hidden.mul(weights), starts).div_(Reduce("sum", weights, starts));
    }
  }
  return {};
}

}  // namespace

at::Tensor PoolEndToken(const EndToken& end, const at::Tensor& hidden, const at::Tensor& ids,
                        const at::Tensor& positions, const PackedSequences& sequences) {
  // One maximum for each text finds the best id and, among equals, the first of them: exact in double, as an id and a
  // position have at most 24 bits each.
  constexpr double kPositions = 1 << 24;
  const at::Tensor rank = (end.is_largest ? ids : ids.eq(end.id)).to(at::kDouble);
  const at::Tensor keys = rank.mul(kPositions).add(positions.to(at::kDouble).neg().add_(kPositions - 1));
  const at::Tensor best = at::segment_reduce(keys.unsqueeze(1), "max", /*lengths=*/{}, /*indices=*/{},
                                             /*offsets=*/sequences.cu_seqlens, /*axis=*/0, /*unsafe=*/true)
                              .squeeze(1);
  const at::Tensor position = best.remainder(kPositions).neg().add_(kPositions - 1);
  const at::Tensor starts = sequences.cu_seqlens.narrow(0, 0, sequences.cu_seqlens.size(0) - 1);
  return at::index_select(hidden, 0, starts.add(position.to(at::kInt))).to(at::kFloat);
}

at::Tensor Pool(const std::vector<Pooling>& poolings, const at::Tensor& hidden, const at::Tensor& positions,
                const PackedSequences& sequences) {
  std::vector<at::Tensor> vectors;
  vectors.reserve(poolings.size());
  for (const Pooling pooling : poolings) {
    vectors.push_back(PoolOne(pooling, hidden, positions, sequences.cu_seqlens));
  }
  return vectors.size() == 1 ? vectors[0] : at::cat(vectors, 1);
}

}  // namespace tributary
