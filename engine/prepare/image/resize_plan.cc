#include "engine/prepare/image/resize_plan.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

constexpr uint64_t kMaxResizedSide = uint64_t{1} << 24;

Rect EfficientNetSquare(const ImagePreprocessing& preprocessing, uint32_t width, uint32_t height) {
  const uint64_t short_side = std::min(width, height);
  const uint64_t part = uint64_t{preprocessing.width} + preprocessing.resize.crop_padding;
  const auto side = static_cast<uint32_t>(std::max<uint64_t>(short_side * preprocessing.width / part, 1));
  return {.left = (width - side + 1) / 2, .top = (height - side + 1) / 2, .width = side, .height = side};
}

// One axis of the centre crop: `length` resized pixels shown on `size`.
struct Span {
  uint32_t first = 0;  // of the resized pixels
  uint32_t count = 0;
  uint32_t at = 0;  // in the output
};

Span CenterSpan(uint32_t length, uint32_t size) {
  if (length < size) return {.first = 0, .count = length, .at = (size - length + 1) / 2};
  return {.first = (length - size) / 2, .count = size, .at = 0};
}

}  // namespace

absl::StatusOr<ResizePlan> PlanResize(const ImagePreprocessing& preprocessing, uint32_t width, uint32_t height) {
  const ImagePreprocessing::Resize& resize = preprocessing.resize;
  ResizePlan plan;
  plan.source = {.left = 0, .top = 0, .width = width, .height = height};
  uint64_t resized_width = width;
  uint64_t resized_height = height;
  switch (resize.mode) {
    case ResizeMode::kNone:
      break;
    case ResizeMode::kExact:
      resized_width = resize.width;
      resized_height = resize.height;
      break;
    case ResizeMode::kShortestEdge: {
      const uint64_t long_side = uint64_t{resize.edge} * std::max(width, height) / std::min(width, height);
      resized_width = width <= height ? resize.edge : long_side;
      resized_height = width <= height ? long_side : resize.edge;
      break;
    }
    case ResizeMode::kCropFirst:
      plan.source = EfficientNetSquare(preprocessing, width, height);
      resized_width = preprocessing.width;
      resized_height = preprocessing.height;
      break;
  }
  if (std::max(resized_width, resized_height) > kMaxResizedSide) {
    return absl::InvalidArgumentError(absl::StrCat("image of ", width, " x ", height, " pixels would be resized to ",
                                                   resized_width, " x ", resized_height, ", a side may have at most ",
                                                   kMaxResizedSide));
  }
  plan.width = static_cast<uint32_t>(resized_width);
  plan.height = static_cast<uint32_t>(resized_height);
  const Span x = CenterSpan(plan.width, preprocessing.width);
  const Span y = CenterSpan(plan.height, preprocessing.height);
  plan.window = {.left = x.first, .top = y.first, .width = x.count, .height = y.count};
  plan.left = x.at;
  plan.top = y.at;
  return plan;
}

}  // namespace tributary
