// Brings a square crop to the encoder's size exactly as Pillow's Image.resize(size, BICUBIC). Internal to
// prepare/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tributary {

// Bicubic (a = -0.5) with the filter widened when shrinking (antialias), separable, horizontal pass first, 22-bit
// fixed-point weights, both passes rounded to 8 bits: bit-equal to Pillow.
// Thread-safety: one thread at a time; keeps weights and rows between calls.
// Source: Pillow, src/libImaging/Resample.c (precompute_coeffs, ImagingResampleHorizontal_8bpc, ..Vertical_8bpc).
class BicubicResizer {
 public:
  // `rgb`: first pixel of the crop, `stride` bytes from row to row, [in_side, in_side, 3]; up to one byte behind the
  // last pixel is read and ignored. `out`: u8 [out_side, out_side, 3].
  void Resize(const uint8_t* rgb, size_t stride, uint32_t in_side, uint32_t out_side, uint8_t* out);
  // Gives the memory of unusually large pictures back.
  void ShrinkTo(size_t bytes);

 private:
  void ComputeWeights(uint32_t in_side, uint32_t out_side);

  // Output position i takes input positions first_[i] .. first_[i] + count_[i] - 1 with weights_[i * taps_ ...].
  uint32_t in_side_ = 0;
  uint32_t out_side_ = 0;
  size_t taps_ = 0;
  std::vector<uint32_t> first_;
  std::vector<uint32_t> count_;
  std::vector<int32_t> weights_;
  std::vector<uint8_t> rows_;  // after the horizontal pass: u8 [in_side, out_side * 3]
};

}  // namespace tributary
