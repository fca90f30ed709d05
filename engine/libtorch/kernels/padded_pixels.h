// Pixels to the first convolution's input: u8 [B, H, W, 3] -> T [B, PH, PW, 3], x * scale + shift by channel inside,
// zero in the padding on the right and below. Torch-free; the arithmetic of one element is the same inline function on
// host and device, so that a test on the CPU covers what the kernel computes.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TRIBUTARY_HOST_DEVICE __host__ __device__
#else
#define TRIBUTARY_HOST_DEVICE
#endif

struct CUstream_st;  // cudaStream_t, without CUDA's headers

namespace tributary {

enum class PixelType : uint8_t { kFp32, kFp16, kBf16 };

struct PaddedPixelsShape {
  int64_t batch = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t padded_height = 0;  // >= height
  int64_t padded_width = 0;   // >= width
  float scale[3] = {1, 1, 1};
  float shift[3] = {0, 0, 0};

  TRIBUTARY_HOST_DEVICE int64_t Elements() const { return batch * padded_height * padded_width * 3; }
};

// Element `index` of the output, row-major.
TRIBUTARY_HOST_DEVICE inline float PaddedPixel(const uint8_t* images, const PaddedPixelsShape& shape, int64_t index) {
  const int64_t channel = index % 3;
  const int64_t x = index / 3 % shape.padded_width;
  const int64_t y = index / (3 * shape.padded_width) % shape.padded_height;
  const int64_t image = index / (3 * shape.padded_width * shape.padded_height);
  if (x >= shape.width || y >= shape.height) return 0.0F;
  const uint8_t pixel = images[((image * shape.height + y) * shape.width + x) * 3 + channel];
  return static_cast<float>(pixel) * shape.scale[channel] + shape.shift[channel];
}

// Enqueues the kernel on `stream`; `images` and `output` are device memory. One pass over the output instead of the
// four that fill, copy, subtract and divide take.
void LaunchPaddedPixels(const uint8_t* images, const PaddedPixelsShape& shape, PixelType type, void* output,
                        CUstream_st* stream);

}  // namespace tributary
