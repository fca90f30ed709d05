// Between our words and LibTorch's: devices, types, and its exceptions as statuses. For sources with torch only.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "absl/status/status.h"
#include "engine/libtorch/device/program_device.h"

namespace tributary {

c10::Device TorchDevice(const ProgramDevice& device);
// Of activations: what goes into the linear layers and comes out of them.
at::ScalarType TorchType(ComputeType type);

// Waits for what this thread's streams and all others have under way on the device; the CPU has nothing.
void SynchroniseDevice(const ProgramDevice& device);

// Inside a catch block: the status of the exception being handled. Out of memory: RESOURCE_EXHAUSTED; else INTERNAL.
absl::Status StatusOfTorchException();

// Calls `body`, which returns absl::Status or absl::StatusOr, under InferenceMode (it is per thread); what LibTorch
// throws becomes its status. Every call into LibTorch from the engine goes through here.
template <typename Body>
auto GuardTorch(Body&& body) -> decltype(body()) {
  try {
    const c10::InferenceMode inference_mode;
    return std::forward<Body>(body)();
  } catch (...) {
    return StatusOfTorchException();
  }
}

}  // namespace tributary
