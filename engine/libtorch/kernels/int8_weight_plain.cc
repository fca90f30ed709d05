// The int8 product without special instructions: what the others are compared with.
#include "engine/libtorch/kernels/int8_weight_isa.h"

namespace tributary::int8_plain {

constexpr size_t kLanes = 4;
#include "engine/libtorch/kernels/cpu_vector.h"

constexpr size_t kTileRows = 4;
constexpr size_t kInputBytes = 1;

inline Vector MultiplyAdd(const Vector& a, const Vector& b, const Vector& c) { return a * b + c; }

inline void StoreInputs(const Integers& integers, std::byte* to) {
  for (size_t i = 0; i < kLanes; ++i) to[i] = static_cast<std::byte>(integers[i] > 255 ? 255 : integers[i]);
}

void SumTile(size_t rows, const std::byte* x, size_t stride, const int8_t* panel, size_t groups, int32_t* sums) {
  for (size_t row = 0; row < rows; ++row, x += stride, sums += kInt8PanelOutputs) {
    for (size_t output = 0; output < kInt8PanelOutputs; ++output) sums[output] = 0;
    for (size_t group = 0; group < groups; ++group) {
      const int8_t* const weights = panel + group * kInt8PanelOutputs * kInt8Group;
      for (size_t output = 0; output < kInt8PanelOutputs; ++output) {
        for (size_t i = 0; i < kInt8Group; ++i) {
          sums[output] += std::to_integer<int32_t>(x[group * kInt8Group + i]) * weights[output * kInt8Group + i];
        }
      }
    }
  }
}

#include "engine/libtorch/kernels/int8_weight_kernel.h"

}  // namespace tributary::int8_plain
