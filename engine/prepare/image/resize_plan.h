// Which pixels of a picture an encoder sees, and where: arithmetic only. Internal to prepare/image.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/prepare/image/image_preprocessing.h"
#include "engine/prepare/image/rect.h"

namespace tributary {

// `source` of the upright picture is resized to width x height; `window` of that is what the output shows, with its
// corner at (left, top) and black around it. What the window leaves out is never computed.
struct ResizePlan {
  Rect source;
  uint32_t width = 0;
  uint32_t height = 0;
  Rect window;
  uint32_t left = 0;
  uint32_t top = 0;
};

// For an upright picture of width x height, both at least 1. INVALID_ARGUMENT: a side would become longer than 2^24
// pixels, which only pictures of more than 10,000 times their width can ask for.
// Source: transformers image_transforms.py, get_resize_output_image_size and center_crop (the numpy ones; torchvision's
// lay an odd border one pixel differently).
absl::StatusOr<ResizePlan> PlanResize(const ImagePreprocessing& preprocessing, uint32_t width, uint32_t height);

}  // namespace tributary
