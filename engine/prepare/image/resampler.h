// Resizes exactly as Pillow's Image.resize(size, filter). Internal to prepare/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/prepare/image/image_preprocessing.h"
#include "engine/prepare/image/rect.h"
#include "engine/prepare/image/resize_plan.h"

namespace tributary {

// Filters widened when shrinking (antialias), separable, 22-bit fixed-point weights, both passes rounded to 8 bits and
// in Pillow 13's order (below 13 the horizontal one was always first): bit-equal to Pillow; kNearest takes the pixel
// under each centre. Only what the plan's window needs is read and computed. Use: Prepare, then Resize once or more.
// Thread-safety: one thread at a time; keeps weights and rows between calls. Source: Pillow, src/libImaging/Resample.c
// (precompute_coeffs, ImagingResampleHorizontal_8bpc, ..Vertical_8bpc) and Geometry.c (ImagingScaleAffine).
class Resampler {
 public:
  // What Resize will read: a part of the plan's source, in the source's coordinates. INVALID_ARGUMENT: weights and rows
  // between the passes would take more than 64 MiB, as of a line of millions of pixels; nothing is allocated then.
  absl::StatusOr<Rect> Prepare(ResizeFilter filter, const ResizePlan& plan);
  // `rgb`: first pixel of that part, `stride` bytes from row to row; up to one byte behind the last pixel is read and
  // ignored. `out`: first pixel of the window, u8 [window.height, window.width, 3], `out_stride` from row to row.
  void Resize(const uint8_t* rgb, size_t stride, uint8_t* out, size_t out_stride);
  // Gives the memory of unusually large pictures back.
  void ShrinkTo(size_t bytes);

 private:
  void ResizeHorizontalFirst(const uint8_t* rgb, size_t stride, uint8_t* out, size_t out_stride);
  void ResizeVerticalFirst(const uint8_t* rgb, size_t stride, uint8_t* out, size_t out_stride);
  // One direction. Output position i of the window takes source positions first[i] .. first[i] + count[i] - 1 with
  // weights[i * taps ...].
  struct Axis {
    ResizeFilter filter = ResizeFilter::kNearest;
    uint32_t in_side = 0;
    uint32_t out_side = 0;
    uint32_t window_begin = 0;
    uint32_t window_size = 0;
    uint32_t read_begin = 0;  // what is needed of the source
    uint32_t read_end = 0;
    size_t taps = 0;
    std::vector<uint32_t> first;
    std::vector<uint32_t> count;
    std::vector<int32_t> weights;

    bool Fits(ResizeFilter other, uint32_t in, uint32_t out, uint32_t begin, uint32_t size) const {
      return filter == other && in_side == in && out_side == out && window_begin == begin && window_size == size;
    }
    void Compute(ResizeFilter filter, uint32_t in, uint32_t out, uint32_t begin, uint32_t size);
    void ComputeNearest(uint32_t size);
    void ComputeWeights(uint32_t size);
  };

  Rect window_;
  bool copy_ = false;  // nothing to resize
  Axis x_;
  Axis y_;
  bool vertical_first_ = false;
  // Between the passes: u8 [rows read, window.width * 3], or [window.height, columns read * 3] and a tail.
  std::vector<uint8_t> rows_;
};

}  // namespace tributary
