// The arithmetic of the CUDA kernel, run on the host, against what the CPU encoder computes with ATen.
#include "engine/libtorch/kernels/padded_pixels.h"

#include <ATen/ops/from_blob.h>

#include <vector>

#include "engine/libtorch/encode/efficientnet_pixels.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("One element of the padded pixels kernel equals the same element made by ATen, padding included") {
  const PaddedPixelsShape shape{.batch = 2, .side = 7, .padded = 8, .mean = 127, .scale = 128};
  std::vector<uint8_t> images(static_cast<size_t>(shape.batch * shape.side * shape.side * 3));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(i * 37 % 256);
  const at::Tensor input = at::from_blob(images.data(), {shape.batch, shape.side, shape.side, 3}, at::kByte);

  const at::Tensor expected = EfficientNetPixels(input, shape.padded, at::kFloat).permute({0, 2, 3, 1}).contiguous();

  REQUIRE(expected.numel() == shape.Elements());
  const float* values = expected.const_data_ptr<float>();
  int64_t zeros = 0;
  for (int64_t i = 0; i < shape.Elements(); ++i) {
    CAPTURE(i);
    const float value = PaddedPixel(images.data(), shape, i);
    CHECK(value == values[i]);
    zeros += value == 0 ? 1 : 0;
  }
  CHECK(zeros >= shape.batch * 3 * (shape.padded * shape.padded - shape.side * shape.side));
}

}  // namespace
}  // namespace tributary
