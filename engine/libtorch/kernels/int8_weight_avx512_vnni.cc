// The int8 product for AVX-512 with VNNI, by vpdpbusd: products of four unsigned and signed 8-bit integers, added to a
// sum of 32 bits. Compiled with that instruction set: called only where the processor has it.
#include <immintrin.h>

#include "engine/libtorch/kernels/int8_weight_isa.h"

namespace tributary::int8_avx512_vnni {

constexpr size_t kLanes = 16;
#include "engine/libtorch/kernels/cpu_vector.h"

// 24 registers of sums, 2 of weights and an input.
constexpr size_t kTileRows = 12;
constexpr size_t kInputBytes = 1;

inline Vector MultiplyAdd(const Vector& a, const Vector& b, const Vector& c) { return _mm512_fmadd_ps(a, b, c); }

inline void StoreInputs(const Integers& integers, std::byte* to) {
  // The form with a mask, of all, because GCC 12 warns of the other one's own source.
  const __m128i bytes = _mm512_maskz_cvtusepi32_epi8(0xffff, reinterpret_cast<__m512i>(integers));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

// `chains` sums of every output, over every chains-th group: a few rows alone would wait for the instruction before.
template <size_t rows, size_t chains>
inline void SumRows(const std::byte* x, size_t stride, const int8_t* weights, size_t groups, int32_t* sums) {
  __m512i total[chains][rows][2] = {};
  const auto add = [&](size_t chain) __attribute__((always_inline)) {
    const __m512i left = _mm512_loadu_si512(weights);
    const __m512i right = _mm512_loadu_si512(weights + kLanes * kInt8Group);
#pragma GCC unroll 12
    for (size_t row = 0; row < rows; ++row) {
      int32_t four;
      __builtin_memcpy(&four, x + row * stride, sizeof four);
      const __m512i inputs = _mm512_set1_epi32(four);
      total[chain][row][0] = _mm512_dpbusd_epi32(total[chain][row][0], inputs, left);
      total[chain][row][1] = _mm512_dpbusd_epi32(total[chain][row][1], inputs, right);
    }
    x += kInt8Group;
    weights += kInt8PanelOutputs * kInt8Group;
  };
  size_t group = 0;
  for (; group + chains <= groups; group += chains) {
#pragma GCC unroll 4
    for (size_t chain = 0; chain < chains; ++chain) add(chain);
  }
  for (; group < groups; ++group) add(0);
#pragma GCC unroll 12
  for (size_t row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (size_t chain = 1; chain < chains; ++chain) {
      total[0][row][0] = _mm512_add_epi32(total[0][row][0], total[chain][row][0]);
      total[0][row][1] = _mm512_add_epi32(total[0][row][1], total[chain][row][1]);
    }
    _mm512_store_si512(sums + row * kInt8PanelOutputs, total[0][row][0]);
    _mm512_store_si512(sums + row * kInt8PanelOutputs + kLanes, total[0][row][1]);
  }
}

void SumTile(size_t rows, const std::byte* x, size_t stride, const int8_t* panel, size_t groups, int32_t* sums) {
  static constexpr decltype(&SumRows<1, 4>) kBy[] = {SumRows<1, 4>, SumRows<2, 2>,  SumRows<3, 1>,  SumRows<4, 1>,
                                                     SumRows<5, 1>, SumRows<6, 1>,  SumRows<7, 1>,  SumRows<8, 1>,
                                                     SumRows<9, 1>, SumRows<10, 1>, SumRows<11, 1>, SumRows<12, 1>};
  kBy[rows - 1](x, stride, panel, groups, sums);
}

#include "engine/libtorch/kernels/int8_weight_kernel.h"

}  // namespace tributary::int8_avx512_vnni
