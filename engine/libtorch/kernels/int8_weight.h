// The weight of a linear layer in 8-bit integers, and its product with activations that are rounded as they come in.
// Torch-free; used by encode/linear on CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tributary {

// How a product is computed. Each gives the same bits.
enum class Int8Path : uint8_t { kPlain, kAvx2 };
std::string_view Int8PathName(Int8Path path);  // "plain", "avx2"
// The fastest this processor has.
Int8Path FastestInt8Path();

// y = x W^T + b. Each output of W has a scale of its own, largest absolute value / 127, and its values become the
// nearest integers (ties to even) in -127..127. Each row of x has a scale (largest - least value, 0 among them) / 255,
// and its values become the nearest of 256 integers around 0, as many below it as the least value needs: after GELU
// half of the integers would go unused otherwise. MiniLM's vectors keep a cosine of 0.992 so, and fell to 0.985
// without. Products are summed in int32 without saturation anywhere, so a row's result depends on nothing but the row;
// scales and bias are applied in fp32. A row or an output with a value that is not finite gives NaN, so that it is
// found where results are checked. Thread-safety: const methods from any thread. Shapes: W f32 [out, in] and x f32
// [rows, in], row-major; b f32 [out]; y f32 [rows, out].
class Int8Weight {
 public:
  // Of `in`: 255 * 127 * kMaxInputs is below 2^31.
  static constexpr size_t kMaxInputs = 65536;

  // weight [out, in]; bias [out] or null. `in` is at most kMaxInputs.
  Int8Weight(const float* weight, const float* bias, size_t out, size_t in);

  size_t out() const { return out_; }
  size_t in() const { return in_; }

  void Multiply(const float* x, size_t rows, float* y) const { Multiply(x, rows, y, FastestInt8Path()); }
  // For tests: by a path that is not the fastest.
  void Multiply(const float* x, size_t rows, float* y, Int8Path path) const;

 private:
  size_t out_;
  size_t in_;
  // [panels][pairs][kPanelOutputs][2]: the inputs by twos, of kPanelOutputs outputs after each other; zeros beyond
  // `out` and `in`.
  std::vector<int8_t> values_;
  std::vector<float> scales_;  // [panels * kPanelOutputs]
  std::vector<float> bias_;    // as scales_; zeros where there is none
};

}  // namespace tributary
