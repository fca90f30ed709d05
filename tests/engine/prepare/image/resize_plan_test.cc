#include "engine/prepare/image/resize_plan.h"

#include <string>

#include "engine/prepare/image/image_preparer.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

// CLIP's: the shorter side to 224, the middle 224 x 224 of that.
ImagePreprocessing ShortestEdge() {
  ImagePreprocessing preprocessing;
  preprocessing.resize.mode = ResizeMode::kShortestEdge;
  preprocessing.resize.edge = 224;
  return preprocessing;
}

ImagePreprocessing Exact() {
  ImagePreprocessing preprocessing;
  preprocessing.resize.mode = ResizeMode::kExact;
  preprocessing.resize.width = preprocessing.resize.height = 224;
  return preprocessing;
}

// Of a picture of `width` x `height` equal pixels, as raw RGB.
absl::StatusOr<PixelBlock> PrepareGray(const ImagePreprocessing& preprocessing, uint32_t width, uint32_t height) {
  const std::string rows(size_t{width} * height * 3, '\x50');
  ImageInput input;
  input.raw_rgb = ImageInput::RawRgb{rows, width, height};
  return MakeImagePreparer(preprocessing, InputLimits{})->Prepare(input);
}

void RequireRefused(const absl::Status& status, const std::string& reason) {
  INFO(status.ToString());
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find(reason) != std::string::npos);
}

TEST_CASE("The longer side follows the shorter one, rounded down, and the window is its middle") {
  const auto wide = PlanResize(ShortestEdge(), 641, 480);
  REQUIRE(wide.ok());
  CHECK(wide->width == 299);  // 224 * 641 / 480 = 299.1
  CHECK(wide->height == 224);
  CHECK(wide->window.left == 37);
  CHECK(wide->window.width == 224);
  CHECK(wide->window.top == 0);
  const auto tall = PlanResize(ShortestEdge(), 480, 641);
  REQUIRE(tall.ok());
  CHECK(tall->width == 224);
  CHECK(tall->window.top == 37);
}

TEST_CASE("A picture smaller than the crop lies in its middle, the odd row and column of black above and left") {
  ImagePreprocessing preprocessing;
  preprocessing.resize.mode = ResizeMode::kNone;
  preprocessing.width = 10;
  preprocessing.height = 8;
  const auto plan = PlanResize(preprocessing, 7, 20);
  REQUIRE(plan.ok());
  CHECK(plan->left == 2);
  CHECK(plan->window.width == 7);
  CHECK(plan->top == 0);
  CHECK(plan->window.top == 6);
  CHECK(plan->window.height == 8);
}

TEST_CASE("A line of ten thousand pixels is served: only its middle is ever resized") {
  const auto tall = PrepareGray(ShortestEdge(), 1, 10000);
  REQUIRE(tall.ok());
  CHECK(tall->rgb == std::vector<uint8_t>(size_t{224} * 224 * 3, 0x50));
  CHECK(PrepareGray(Exact(), 10000, 1).ok());
}

TEST_CASE("A line whose resize would not fit any memory is refused with the figures") {
  RequireRefused(PrepareGray(ShortestEdge(), 1, 80000).status(),
                 "image of 1 x 80000 pixels would be resized to 224 x 17920000, a side may have at most 16777216");
  RequireRefused(PrepareGray(Exact(), 1 << 22, 1).status(), "resizing 4194304 x 1 pixels to 224 x 224 would need");
}

}  // namespace
}  // namespace tributary
