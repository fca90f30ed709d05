// The int8 product for AVX2 with FMA, by vpmaddwd: products of 16-bit integers in pairs, summed in 32 bits.
// (vpmaddubsw, of 8-bit integers, would saturate at 16 bits.) Compiled with that instruction set: called only where the
// processor has it.
#include <immintrin.h>

#include "engine/libtorch/kernels/int8_weight_isa.h"

namespace tributary::int8_avx2 {

constexpr size_t kLanes = 8;
#include "engine/libtorch/kernels/cpu_vector.h"

// 8 registers of sums, 4 of weights, an input and a product.
constexpr size_t kTileRows = 4;
constexpr size_t kInputBytes = 2;

inline Vector MultiplyAdd(const Vector& a, const Vector& b, const Vector& c) { return _mm256_fmadd_ps(a, b, c); }

// A group becomes inputs 0 and 2, then 1 and 3, in 16 bits: weights come apart the same way without a shuffle.
inline void StoreInputs(const Integers& integers, std::byte* to) {
  const Integers capped = integers > 255 ? (Integers{} + 255) : integers;
  const Integers later = __builtin_shufflevector(capped, capped, 2, 3, 0, 1, 6, 7, 4, 5) << 16;
  const auto pairs = __builtin_shufflevector(capped | later, capped, 0, 1, 4, 5);
  __builtin_memcpy(to, &pairs, sizeof pairs);
}

inline __m256i BroadcastPair(const std::byte* from) {
  int32_t pair;
  __builtin_memcpy(&pair, from, sizeof pair);
  return _mm256_set1_epi32(pair);
}

template <size_t rows>
inline void SumRows(const std::byte* x, size_t stride, const int8_t* weights, size_t groups, int32_t* sums) {
  __m256i total[rows][2] = {};
  for (size_t group = 0; group < groups; ++group, x += 8, weights += kInt8PanelOutputs * kInt8Group) {
    const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
    const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights) + 1);
    const __m256i left_even = _mm256_srai_epi16(_mm256_slli_epi16(left, 8), 8);
    const __m256i left_odd = _mm256_srai_epi16(left, 8);
    const __m256i right_even = _mm256_srai_epi16(_mm256_slli_epi16(right, 8), 8);
    const __m256i right_odd = _mm256_srai_epi16(right, 8);
#pragma GCC unroll 4
    for (size_t row = 0; row < rows; ++row) {
      const __m256i even = BroadcastPair(x + row * stride);
      total[row][0] = _mm256_add_epi32(total[row][0], _mm256_madd_epi16(even, left_even));
      total[row][1] = _mm256_add_epi32(total[row][1], _mm256_madd_epi16(even, right_even));
      const __m256i odd = BroadcastPair(x + row * stride + 4);
      total[row][0] = _mm256_add_epi32(total[row][0], _mm256_madd_epi16(odd, left_odd));
      total[row][1] = _mm256_add_epi32(total[row][1], _mm256_madd_epi16(odd, right_odd));
    }
  }
#pragma GCC unroll 4
  for (size_t row = 0; row < rows; ++row) {
    auto* const to = reinterpret_cast<__m256i*>(sums + row * kInt8PanelOutputs);
    _mm256_storeu_si256(to, total[row][0]);
    _mm256_storeu_si256(to + 1, total[row][1]);
  }
}

void SumTile(size_t rows, const std::byte* x, size_t stride, const int8_t* panel, size_t groups, int32_t* sums) {
  static constexpr decltype(&SumRows<1>) kBy[] = {SumRows<1>, SumRows<2>, SumRows<3>, SumRows<4>};
  for (size_t output = 0; output < kInt8PanelOutputs; output += 2 * kLanes) {
    kBy[rows - 1](x, stride, panel + output * kInt8Group, groups, sums + output);
  }
}

#include "engine/libtorch/kernels/int8_weight_kernel.h"

}  // namespace tributary::int8_avx2
