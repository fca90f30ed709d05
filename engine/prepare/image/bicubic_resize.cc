#include "engine/prepare/image/bicubic_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// The compiler makes one version per instruction set and the loader picks: without 32-bit vector multiplication (before
// SSE4.1) the passes are about three times slower. Sanitizers start before the loader's resolver may run.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define TRIBUTARY_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TRIBUTARY_VECTOR_CLONES
#endif

namespace tributary {
namespace {

constexpr double kSupport = 2.0;         // radius of the bicubic filter, in output pixels
constexpr int kWeightBits = 32 - 8 - 2;  // 8 for the pixel, 2 for overshoot and sign
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

// Four 32-bit lanes: R, G, B and one that is thrown away.
using Lanes = int32_t __attribute__((vector_size(16)));
using ByteLanes = uint8_t __attribute__((vector_size(4)));

double Bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

inline uint8_t Clip(int32_t fixed) { return static_cast<uint8_t>(std::clamp(fixed >> kWeightBits, 0, 255)); }

// One row: out u8 [out_side, 3].
TRIBUTARY_VECTOR_CLONES
void ResizeRow(const uint8_t* row, uint32_t out_side, const uint32_t* first, const uint32_t* count,
               const int32_t* weights, size_t taps, uint8_t* out) {
  for (uint32_t i = 0; i < out_side; ++i, weights += taps, out += 3) {
    const uint8_t* pixel = row + size_t{first[i]} * 3;
    Lanes sum = {kHalf, kHalf, kHalf, 0};
    for (uint32_t t = 0; t < count[i]; ++t, pixel += 3) {
      ByteLanes bytes;
      std::memcpy(&bytes, pixel, sizeof(bytes));
      sum += __builtin_convertvector(bytes, Lanes) * weights[t];
    }
    for (int c = 0; c < 3; ++c) out[c] = Clip(sum[c]);
  }
}

// One output row out of `count` rows of `length` bytes each.
TRIBUTARY_VECTOR_CLONES
void BlendRows(const uint8_t* rows, size_t length, uint32_t count, const int32_t* weights, uint8_t* out) {
  constexpr size_t kBlock = 32;  // sums stay in registers
  size_t begin = 0;
  for (; begin + kBlock <= length; begin += kBlock) {
    int32_t sums[kBlock];
    for (int32_t& sum : sums) sum = kHalf;
    for (uint32_t t = 0; t < count; ++t) {
      const uint8_t* row = rows + t * length + begin;
      for (size_t i = 0; i < kBlock; ++i) sums[i] += row[i] * weights[t];
    }
    for (size_t i = 0; i < kBlock; ++i) out[begin + i] = Clip(sums[i]);
  }
  for (; begin < length; ++begin) {
    int32_t sum = kHalf;
    for (uint32_t t = 0; t < count; ++t) sum += rows[t * length + begin] * weights[t];
    out[begin] = Clip(sum);
  }
}

}  // namespace

void BicubicResizer::ComputeWeights(uint32_t in_side, uint32_t out_side) {
  if (in_side == in_side_ && out_side == out_side_) return;
  const double scale = static_cast<double>(in_side) / out_side;
  const double filter_scale = std::max(scale, 1.0);
  const double support = kSupport * filter_scale;
  taps_ = static_cast<size_t>(std::ceil(support)) * 2 + 1;
  first_.resize(out_side);
  count_.resize(out_side);
  weights_.assign(out_side * taps_, 0);
  std::vector<double> exact(taps_);
  constexpr double kHalf = 0.5;
  for (uint32_t i = 0; i < out_side; ++i) {
    const double center = (i + kHalf) * scale;
    // Cut, not rounded, for negative values too: Pillow's own arithmetic.
    const int begin = std::max(static_cast<int>(center - support + kHalf), 0);
    const int end = std::min(static_cast<int>(center + support + kHalf), static_cast<int>(in_side));
    double total = 0.0;
    for (int x = begin; x < end; ++x) {
      // Multiplying by the inverse, as Pillow does: dividing rounds differently.
      exact[x - begin] = Bicubic((x - center + 0.5) * (1.0 / filter_scale));
      total += exact[x - begin];
    }
    first_[i] = static_cast<uint32_t>(begin);
    count_[i] = static_cast<uint32_t>(end - begin);
    for (int x = begin; x < end; ++x) {
      const double weight = (total != 0.0 ? exact[x - begin] / total : exact[x - begin]) * (1 << kWeightBits);
      weights_[i * taps_ + (x - begin)] = static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
  }
  in_side_ = in_side;
  out_side_ = out_side;
}

void BicubicResizer::Resize(const uint8_t* rgb, size_t stride, uint32_t in_side, uint32_t out_side, uint8_t* out) {
  ComputeWeights(in_side, out_side);
  const size_t row_bytes = size_t{out_side} * 3;
  rows_.resize(in_side * row_bytes);
  for (uint32_t y = 0; y < in_side; ++y) {
    ResizeRow(rgb + y * stride, out_side, first_.data(), count_.data(), weights_.data(), taps_,
              rows_.data() + y * row_bytes);
  }
  for (uint32_t y = 0; y < out_side; ++y) {
    BlendRows(rows_.data() + first_[y] * row_bytes, row_bytes, count_[y], weights_.data() + y * taps_,
              out + y * row_bytes);
  }
}

void BicubicResizer::ShrinkTo(size_t bytes) {
  if (rows_.capacity() > bytes) rows_ = {};
}

}  // namespace tributary
