// The arithmetic of the CUDA kernel, run on the host, against what the CPU encoder computes with ATen.
#include "engine/libtorch/kernels/padded_pixels.h"

#include <ATen/ops/from_blob.h>

#include <vector>

#include "engine/libtorch/encode/image_pixels.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("One element of the padded pixels kernel equals the same element made by ATen, padding included") {
  const PaddedPixelsShape shape{.batch = 2,
                                .height = 7,
                                .width = 9,
                                .padded_height = 8,
                                .padded_width = 12,
                                .scale = {1.0F / 128, 0.0171247F, 0.25F},
                                .shift = {-127.0F / 128, -2.117904F, 3.0F}};
  std::vector<uint8_t> images(static_cast<size_t>(shape.batch * shape.height * shape.width * 3));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(i * 37 % 256);
  const at::Tensor input = at::from_blob(images.data(), {shape.batch, shape.height, shape.width, 3}, at::kByte);
  const PixelValues pixels({.scale = {shape.scale[0], shape.scale[1], shape.scale[2]},
                            .shift = {shape.shift[0], shape.shift[1], shape.shift[2]}},
                           ComputeType::kFp32, {});

  const at::Tensor expected =
      pixels.Forward(input, shape.padded_height, shape.padded_width).permute({0, 2, 3, 1}).contiguous();

  REQUIRE(expected.numel() == shape.Elements());
  const float* values = expected.const_data_ptr<float>();
  int64_t zeros = 0;
  for (int64_t i = 0; i < shape.Elements(); ++i) {
    CAPTURE(i);
    const float value = PaddedPixel(images.data(), shape, i);
    CHECK(value == values[i]);
    zeros += value == 0 ? 1 : 0;
  }
  CHECK(zeros >= shape.batch * 3 * (shape.padded_height * shape.padded_width - shape.height * shape.width));
}

}  // namespace
}  // namespace tributary
