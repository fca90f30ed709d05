#include "engine/libtorch/kernels/int8_weight.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

namespace tributary {
namespace {

constexpr size_t kPanelOutputs = 16;  // outputs computed together: two AVX2 registers of sums
constexpr size_t kTileRows = 4;       // rows computed together; with the outputs: 8 registers of sums of 16
// Rows that are rounded before a panel is run over them: their integers (2 bytes each) stay in the L2 cache with the
// panel in L1, and the weight is read once for all of them.
constexpr size_t kBlockRows = 96;
constexpr float kLargestWeight = 127;
constexpr int32_t kActivationSteps = 255;

using Sums = std::array<int32_t, kTileRows * kPanelOutputs>;

size_t RoundUp(size_t value, size_t step) { return (value + step - 1) / step * step; }
size_t PairsOf(size_t in) { return (in + 1) / 2; }

// At 1.5 * 2^23 floats are whole numbers apart: the addition rounds, ties to even.
// In every path's own instructions: hence always inlined, as the functions below.
[[gnu::always_inline]] inline int32_t Nearest(float value) {
  constexpr float kWhole = 12582912.0f;
  return static_cast<int32_t>((value + kWhole) - kWhole);
}

// As integers, floats >= 0 are in the same order, what is not finite comes after all that is, and floats < 0 are below
// 0. So these are the bits of the largest value and of minus the least one, 0 among them.
struct Extremes {
  int32_t high = 0;
  int32_t low = 0;

  bool finite() const { return std::max(high, low) < std::bit_cast<int32_t>(std::numeric_limits<float>::infinity()); }
};

[[gnu::always_inline]] inline Extremes ExtremesOf(const float* values, size_t count) {
  constexpr uint32_t kSign = 0x80000000;
  Extremes found;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    found.high = std::max(found.high, static_cast<int32_t>(bits));
    found.low = std::max(found.low, static_cast<int32_t>(bits ^ kSign));
  }
  return found;
}

bool HasScale(const Extremes& extremes, float scale) {
  return extremes.finite() && scale >= std::numeric_limits<float>::min();
}

// Zeros, for values without a scale; returns NaN where they are not finite, 0 where they are as good as 0.
template <typename Integer>
float FillZeros(const Extremes& extremes, size_t count, Integer* integers) {
  std::fill(integers, integers + count, Integer{0});
  return extremes.finite() ? 0.0f : std::numeric_limits<float>::quiet_NaN();
}

// Of one output. Returns the scale.
float RoundOutput(const float* values, size_t count, int8_t* integers) {
  const Extremes extremes = ExtremesOf(values, count);
  const float scale = std::bit_cast<float>(std::max(extremes.high, extremes.low)) / kLargestWeight;
  if (!HasScale(extremes, scale)) return FillZeros(extremes, count, integers);
  const float per_step = 1 / scale;
  for (size_t i = 0; i < count; ++i) integers[i] = static_cast<int8_t>(Nearest(values[i] * per_step));
  return scale;
}

// Of one row of activations. Returns the scale.
[[gnu::always_inline]] inline float RoundRow(const float* values, size_t count, int16_t* integers) {
  const Extremes extremes = ExtremesOf(values, count);
  const auto high = std::bit_cast<float>(extremes.high);
  const auto low = std::bit_cast<float>(extremes.low);
  const float scale = high / kActivationSteps + low / kActivationSteps;
  if (!HasScale(extremes, scale)) return FillZeros(extremes, count, integers);
  const float per_step = 1 / scale;
  const int32_t least = -Nearest(low * per_step);
  const int32_t largest = least + kActivationSteps;
  for (size_t i = 0; i < count; ++i) {
    integers[i] = static_cast<int16_t>(std::min(std::max(Nearest(values[i] * per_step), least), largest));
  }
  return scale;
}

// x [rows, in] -> integers [rows, 2 * PairsOf(in)], scales [rows].
[[gnu::always_inline]] inline void RoundRows(const float* x, size_t rows, size_t in, int16_t* integers, float* scales) {
  const size_t stride = 2 * PairsOf(in);
  for (size_t row = 0; row < rows; ++row) {
    scales[row] = RoundRow(x + row * in, in, integers + row * stride);
    std::fill(integers + row * stride + in, integers + (row + 1) * stride, int16_t{0});
  }
}

void RoundRowsPlain(const float* x, size_t rows, size_t in, int16_t* integers, float* scales) {
  RoundRows(x, rows, in, integers, scales);
}

[[gnu::target("avx2")]] void RoundRowsAvx2(const float* x, size_t rows, size_t in, int16_t* integers, float* scales) {
  RoundRows(x, rows, in, integers, scales);
}

// Sums over all inputs, of kTileRows rows and one panel.
void TilePlain(const int16_t* rows, const int8_t* panel, size_t pairs, Sums& sums) {
  sums.fill(0);
  for (size_t row = 0; row < kTileRows; ++row) {
    const int16_t* const x = rows + row * 2 * pairs;
    int32_t* const sum = sums.data() + row * kPanelOutputs;
    for (size_t pair = 0; pair < pairs; ++pair) {
      const int8_t* const weights = panel + pair * 2 * kPanelOutputs;
      for (size_t output = 0; output < kPanelOutputs; ++output) {
        sum[output] += x[2 * pair] * weights[2 * output] + x[2 * pair + 1] * weights[2 * output + 1];
      }
    }
  }
}

// The same by vpmaddwd: products of 16-bit integers in pairs, summed in 32 bits. (vpmaddubsw, of 8-bit integers, would
// saturate at 16 bits.)
[[gnu::target("avx2")]] void TileAvx2(const int16_t* rows, const int8_t* panel, size_t pairs, Sums& sums) {
  constexpr size_t kHalf = kPanelOutputs / 2;
  __m256i low[kTileRows] = {};
  __m256i high[kTileRows] = {};
  for (size_t pair = 0; pair < pairs; ++pair) {
    const auto* const weights = reinterpret_cast<const __m128i*>(panel + pair * 2 * kPanelOutputs);
    const __m256i low_weights = _mm256_cvtepi8_epi16(_mm_loadu_si128(weights));
    const __m256i high_weights = _mm256_cvtepi8_epi16(_mm_loadu_si128(weights + 1));
    for (size_t row = 0; row < kTileRows; ++row) {
      int32_t two;
      std::memcpy(&two, rows + (row * pairs + pair) * 2, sizeof(two));
      const __m256i x = _mm256_set1_epi32(two);
      low[row] = _mm256_add_epi32(low[row], _mm256_madd_epi16(x, low_weights));
      high[row] = _mm256_add_epi32(high[row], _mm256_madd_epi16(x, high_weights));
    }
  }
  for (size_t row = 0; row < kTileRows; ++row) {
    int32_t* const sum = sums.data() + row * kPanelOutputs;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sum), low[row]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sum + kHalf), high[row]);
  }
}

struct Path {
  void (*round_rows)(const float* x, size_t rows, size_t in, int16_t* integers, float* scales);
  void (*tile)(const int16_t* rows, const int8_t* panel, size_t pairs, Sums& sums);
};

Path FunctionsOf(Int8Path path) {
  if (path == Int8Path::kAvx2) return {RoundRowsAvx2, TileAvx2};
  return {RoundRowsPlain, TilePlain};
}

}  // namespace

std::string_view Int8PathName(Int8Path path) { return path == Int8Path::kAvx2 ? "avx2" : "plain"; }

Int8Path FastestInt8Path() {
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  return avx2 ? Int8Path::kAvx2 : Int8Path::kPlain;
}

Int8Weight::Int8Weight(const float* weight, const float* bias, size_t out, size_t in)
    : out_(out),
      in_(in),
      values_(RoundUp(out, kPanelOutputs) * 2 * PairsOf(in)),
      scales_(RoundUp(out, kPanelOutputs)),
      bias_(RoundUp(out, kPanelOutputs)) {
  assert(in <= kMaxInputs);
  std::vector<int8_t> integers(in);
  for (size_t output = 0; output < out; ++output) {
    scales_[output] = RoundOutput(weight + output * in, in, integers.data());
    const size_t panel = output / kPanelOutputs * kPanelOutputs;
    int8_t* const first = values_.data() + panel * 2 * PairsOf(in) + output % kPanelOutputs * 2;
    for (size_t i = 0; i < in; ++i) first[i / 2 * 2 * kPanelOutputs + i % 2] = integers[i];
  }
  if (bias != nullptr) std::copy(bias, bias + out, bias_.begin());
}

void Int8Weight::Multiply(const float* x, size_t rows, float* y, Int8Path path) const {
  const Path run = FunctionsOf(path);
  const size_t pairs = PairsOf(in_);
  const size_t stride = 2 * pairs;
  const size_t most = std::min(RoundUp(rows, kTileRows), kBlockRows);
  std::vector<int16_t> integers(most * stride);
  std::array<float, kBlockRows> row_scales{};
  Sums sums;
  for (size_t first = 0; first < rows; first += kBlockRows) {
    // A last tile that is not full runs over what an earlier block left behind it, and that is not written out.
    const size_t count = std::min(kBlockRows, rows - first);
    run.round_rows(x + first * in_, count, in_, integers.data(), row_scales.data());
    for (size_t panel = 0; panel < scales_.size(); panel += kPanelOutputs) {
      const size_t outputs = std::min(kPanelOutputs, out_ - panel);
      for (size_t tile = 0; tile < count; tile += kTileRows) {
        run.tile(integers.data() + tile * stride, values_.data() + panel * stride, pairs, sums);
        for (size_t row = tile; row < std::min(tile + kTileRows, count); ++row) {
          const int32_t* const sum = sums.data() + (row - tile) * kPanelOutputs;
          float* const to = y + (first + row) * out_ + panel;
          for (size_t i = 0; i < outputs; ++i) {
            to[i] = static_cast<float>(sum[i]) * (row_scales[row] * scales_[panel + i]) + bias_[panel + i];
          }
        }
      }
    }
  }
}

}  // namespace tributary
