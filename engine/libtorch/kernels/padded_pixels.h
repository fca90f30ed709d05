// Pixels to the first convolution's input: u8 [B, S, S, 3] -> T [B, P, P, 3], (x - mean) / scale inside, zero in the
// padding on the right and below. Torch-free; the arithmetic of one element is the same inline function on host and
// device, so that a test on the CPU covers what the kernel computes.
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
  int64_t side = 0;    // S
  int64_t padded = 0;  // P >= S
  float mean = 0;
  float scale = 1;

  TRIBUTARY_HOST_DEVICE int64_t Elements() const { return batch * padded * padded * 3; }
};

// Element `index` of the output, row-major.
TRIBUTARY_HOST_DEVICE inline float PaddedPixel(const uint8_t* images, const PaddedPixelsShape& shape, int64_t index) {
  const int64_t channel = index % 3;
  const int64_t x = index / 3 % shape.padded;
  const int64_t y = index / (3 * shape.padded) % shape.padded;
  const int64_t image = index / (3 * shape.padded * shape.padded);
  if (x >= shape.side || y >= shape.side) return 0.0F;
  const uint8_t pixel = images[((image * shape.side + y) * shape.side + x) * 3 + channel];
  return (static_cast<float>(pixel) - shape.mean) / shape.scale;
}

// Enqueues the kernel on `stream`; `images` and `output` are device memory. One pass over the output instead of the
// four that fill, copy, subtract and divide take.
void LaunchPaddedPixels(const uint8_t* images, const PaddedPixelsShape& shape, PixelType type, void* output,
                        CUstream_st* stream);

}  // namespace tributary
