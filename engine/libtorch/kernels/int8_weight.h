// The weight of a linear layer in 8-bit integers, and its product with activations that are rounded as they come in.
// Torch-free; used by encode/linear on CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/libtorch/kernels/activation.h"

namespace tributary {

// How a product is computed: an instruction set's own form. All sum to the same integers, and without an activation
// give the same bits.
enum class Int8Path : uint8_t { kPlain, kAvx2, kAvxVnni, kAvx512Vnni };
std::string_view Int8PathName(Int8Path path);  // "plain", "avx2", "avx-vnni", "avx512-vnni"
// All this processor has, the fastest last.
const std::vector<Int8Path>& Int8Paths();
inline Int8Path FastestInt8Path() { return Int8Paths().back(); }

// What becomes of a product with its bias, while it is in registers: one of these, or nothing.
struct Int8Finish {
  Activation activation = Activation::kNone;  // within 1e-5 of the fp32 function
  const float* add = nullptr;                 // [rows, out], added
  const float* factor = nullptr;              // [rows, out], multiplied with
};

// y = x W^T + b. Each output of W has a scale of its own, largest absolute value / 127, and its values become the
// nearest integers (ties to even) in -127..127. Each row of x has a scale (largest - least value, 0 among them) / 255,
// and its values become the nearest of 256 integers around 0, as many below it as the least value needs: after GELU
// half of the integers would go unused otherwise. MiniLM's vectors keep a cosine of 0.992 so, and fell to 0.985
// without. Products are summed in int32 without saturation anywhere, so a row's result depends on nothing but the row;
// scales and bias are applied in fp32. A row or an output with a value that is not finite gives NaN, so that it is
// found where results are checked. Thread-safety: const methods from any thread; each thread keeps the memory its
// products work in. Shapes: W f32 [out, in] and x f32 [rows, in], row-major; b f32 [out]; y f32 [rows, out].
class Int8Weight {
 public:
  // Of `in`: 255 * 127 * kMaxInputs is below 2^31.
  static constexpr size_t kMaxInputs = 65536;

  // weight [out, in]; bias [out] or null. `in` is at most kMaxInputs.
  Int8Weight(const float* weight, const float* bias, size_t out, size_t in);

  size_t out() const { return out_; }
  size_t in() const { return in_; }

  // y may be what is added or multiplied with.
  void Multiply(const float* x, size_t rows, float* y, const Int8Finish& finish = {}) const {
    Multiply(x, rows, y, finish, FastestInt8Path());
  }
  // For tests and benchmarks: by a path that is not the fastest.
  void Multiply(const float* x, size_t rows, float* y, const Int8Finish& finish, Int8Path path) const;

 private:
  size_t out_;
  size_t in_;
  // [panels][groups][kInt8PanelOutputs][4]: the inputs by fours, of a panel's outputs after each other; zeros beyond
  // `out` and `in`. The first panel begins at a cache line: values_ has room for that.
  std::vector<int8_t> values_;
  size_t values_begin_ = 0;
  std::vector<float> scales_;      // [panels * kInt8PanelOutputs]
  std::vector<float> bias_;        // as scales_; zeros where there is none
  std::vector<int32_t> integers_;  // as scales_: the sum of an output's integers
};

}  // namespace tributary
