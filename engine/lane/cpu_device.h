// The CPU as a device: every stream is one worker thread, just as asynchronous as a CUDA stream. Under the CPU lanes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/clock.h"
#include "engine/lane/device.h"

namespace tributary {

struct CpuDeviceOptions {
  // Stream i runs on CPU affinity[i % size]; empty: not pinned.
  std::vector<int> affinity;
  // Runs on each worker thread before its first work: inference mode, thread counts of a library. May be empty.
  std::function<void(size_t lane)> thread_init;
};

// Streams are threads "trib-cpu-N" (N: the lane), which take closures from a bounded FIFO. Device memory is host
// memory, 64-byte aligned, so lanes enqueue no copies; CopyIn and CopyOut between different memories are plain copies.
// Errors: CreateStream INVALID_ARGUMENT where the thread cannot run on the CPU asked for; Launch, Record and copies
//   RESOURCE_EXHAUSTED when the FIFO is full (a lane keeps it to a few entries a slot, far below).
// Ownership: `clock` outlives the device and its streams; streams may outlive the device.
std::unique_ptr<Device> CreateCpuDevice(CpuDeviceOptions options, const Clock* clock);

}  // namespace tributary
