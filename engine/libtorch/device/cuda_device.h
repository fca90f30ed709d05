// CUDA as a lane's device: one high-priority stream a lane, pinned slots, events reaped by a thread of the stream.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/lane/device.h"

namespace tributary {

// GPUs this process can use; 0 where there is no driver.
int CudaDeviceCount();

// Gives back to the GPUs what LibTorch's allocator keeps of freed tensors: for slots, which it does not serve, and for
// other processes. Waits for the GPUs.
void ReleaseCachedCudaMemory();

// Who calls it: engine/libtorch/engine_factory. What it feeds: engine/lane.
// Errors: UNAVAILABLE where there is no such GPU. A CUDA error is sticky: from then on every event of the device's
// streams
//   carries INTERNAL with the library's words.
// Source: CUDA runtime API, "Stream Management", "Event Management"; c10/cuda/CUDAStream.h.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int index, Clock* clock);

}  // namespace tributary
