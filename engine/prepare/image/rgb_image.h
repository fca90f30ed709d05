// A decoded picture on its way from decoder to resize. Internal to prepare/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/prepare/image/orientation.h"

namespace tributary {

// Memory that is reused from picture to picture and never initialised.
class PixelBuffer {
 public:
  // At least `bytes` long; what was there before is lost.
  std::span<uint8_t> Reserve(size_t bytes) {
    if (bytes > capacity_) {
      capacity_ = 0;  // so that a failing allocation leaves an empty buffer
      data_.reset();
      data_ = std::make_unique_for_overwrite<uint8_t[]>(bytes);
      capacity_ = bytes;
    }
    return {data_.get(), bytes};
  }
  // Gives memory beyond `bytes` back: one huge picture must not stay resident in every worker.
  void ShrinkTo(size_t bytes) {
    if (capacity_ <= bytes) return;
    data_.reset();
    capacity_ = 0;
  }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t capacity_ = 0;
};

// Bytes the resize may read behind the last pixel: it loads pixels four bytes at a time.
inline constexpr size_t kPixelTailBytes = 4;

// A view. rgb u8 [height, width, 3] without row padding, followed by kPixelTailBytes readable bytes.
struct RgbImage {
  const uint8_t* rgb = nullptr;
  uint32_t width = 0;
  uint32_t height = 0;
  Orientation orientation = Orientation::kUpright;  // not yet applied
};

}  // namespace tributary
