// The int8 product for AVX-VNNI, by vpdpbusd on 256 bits: for processors that have VNNI without AVX-512. Compiled with
// that instruction set: called only where the processor has it.
#include <immintrin.h>

#include "engine/libtorch/kernels/int8_weight_isa.h"

namespace tributary::int8_avx_vnni {

constexpr size_t kLanes = 8;
#include "engine/libtorch/kernels/cpu_vector.h"

// 12 registers of sums, 2 of weights and an input fill 16.
constexpr size_t kTileRows = 6;
constexpr size_t kInputBytes = 1;

inline Vector MultiplyAdd(const Vector& a, const Vector& b, const Vector& c) { return _mm256_fmadd_ps(a, b, c); }

inline void StoreInputs(const Integers& integers, std::byte* to) {
  using Bytes = uint8_t __attribute__((vector_size(kLanes)));
  const Bytes bytes = __builtin_convertvector(integers > 255 ? (Integers{} + 255) : integers, Bytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}

template <size_t rows>
inline void SumRows(const std::byte* x, size_t stride, const int8_t* weights, size_t groups, int32_t* sums) {
  __m256i total[rows][2] = {};
  for (size_t group = 0; group < groups; ++group, x += kInt8Group, weights += kInt8PanelOutputs * kInt8Group) {
    const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
    const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights) + 1);
#pragma GCC unroll 6
    for (size_t row = 0; row < rows; ++row) {
      int32_t four;
      __builtin_memcpy(&four, x + row * stride, sizeof four);
      const __m256i inputs = _mm256_set1_epi32(four);
      total[row][0] = _mm256_dpbusd_avx_epi32(total[row][0], inputs, left);
      total[row][1] = _mm256_dpbusd_avx_epi32(total[row][1], inputs, right);
    }
  }
#pragma GCC unroll 6
  for (size_t row = 0; row < rows; ++row) {
    auto* const to = reinterpret_cast<__m256i*>(sums + row * kInt8PanelOutputs);
    _mm256_storeu_si256(to, total[row][0]);
    _mm256_storeu_si256(to + 1, total[row][1]);
  }
}

void SumTile(size_t rows, const std::byte* x, size_t stride, const int8_t* panel, size_t groups, int32_t* sums) {
  static constexpr decltype(&SumRows<1>) kBy[] = {SumRows<1>, SumRows<2>, SumRows<3>,
                                                  SumRows<4>, SumRows<5>, SumRows<6>};
  for (size_t output = 0; output < kInt8PanelOutputs; output += 2 * kLanes) {
    kBy[rows - 1](x, stride, panel + output * kInt8Group, groups, sums + output);
  }
}

#include "engine/libtorch/kernels/int8_weight_kernel.h"

}  // namespace tributary::int8_avx_vnni
