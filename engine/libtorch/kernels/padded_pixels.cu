#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "engine/libtorch/kernels/padded_pixels.h"

namespace tributary {
namespace {

__device__ inline void Store(float* to, float value) { *to = value; }
__device__ inline void Store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ inline void Store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <typename T>
__global__ void PaddedPixelsKernel(const uint8_t* __restrict__ images, PaddedPixelsShape shape,
                                   T* __restrict__ output) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t elements = shape.Elements();
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += stride) {
    Store(output + i, PaddedPixel(images, shape, i));
  }
}

template <typename T>
void Launch(const uint8_t* images, const PaddedPixelsShape& shape, void* output, cudaStream_t stream) {
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 4096;
  const int64_t wanted = (shape.Elements() + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  if (blocks == 0) return;
  PaddedPixelsKernel<T><<<blocks, kThreads, 0, stream>>>(images, shape, static_cast<T*>(output));
}

}  // namespace

void LaunchPaddedPixels(const uint8_t* images, const PaddedPixelsShape& shape, PixelType type, void* output,
                        CUstream_st* stream) {
  switch (type) {
    case PixelType::kFp32:
      return Launch<float>(images, shape, output, stream);
    case PixelType::kFp16:
      return Launch<__half>(images, shape, output, stream);
    case PixelType::kBf16:
      return Launch<__nv_bfloat16>(images, shape, output, stream);
  }
}

}  // namespace tributary
