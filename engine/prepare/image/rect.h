// A part of a picture, in pixels. Internal to prepare/image.
#pragma once

#include <cstdint>

namespace tributary {

struct Rect {
  uint32_t left = 0;
  uint32_t top = 0;
  uint32_t width = 0;
  uint32_t height = 0;
};

}  // namespace tributary
