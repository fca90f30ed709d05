// The small device interface under the lanes: streams, events, pinned slots, copies, launch. CPU: lane/cpu_device (a
// worker thread per stream). CUDA: libtorch/device/cuda_device. Tests: tests/support/fake_device (steps events by hand,
// poisons staging slots until their event has fired).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"

namespace tributary {

// Memory with its deleter: host memory a device can copy from and to asynchronously, or device memory.
struct DeviceBuffer {
  std::shared_ptr<std::byte> data;
  size_t bytes = 0;
};

// Called once when the stream has passed the point where it was recorded: the first error of the work enqueued since
// the previous event (OK otherwise), and when the point was reached. Runs on a thread of the stream, never on the
// caller of Record: must be short, and must neither throw nor call back into the stream.
using EventCallback = absl::AnyInvocable<void(absl::Status, TimePoint) &&>;

// One in-order queue of device work. Work is enqueued by one thread (the lane's) and runs in that order.
// Invariants: no call waits for enqueued work; every recorded event's callback runs exactly once, also when the stream
// is
//   destroyed (the destructor drains what was enqueued).
// Ownership: the caller keeps all memory alive and untouched until an event recorded after its use has fired.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  // Host -> device, device -> host. On the CPU both memories may be the same pointer: then nothing is copied.
  virtual absl::Status CopyIn(std::byte* device, const std::byte* pinned, size_t bytes) = 0;
  virtual absl::Status CopyOut(std::byte* pinned, const std::byte* device, size_t bytes) = 0;
  // CUDA: calls `work` now, under this stream's guard; it enqueues kernels. CPU: calls it later on the worker thread.
  // An exception or error from `work` becomes the status of the next event.
  virtual absl::Status Launch(absl::AnyInvocable<absl::Status() &&> work) = 0;
  virtual absl::Status Record(EventCallback callback) = 0;
};

// Thread-safety: all methods from any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string Name() const = 0;  // "cpu", "cuda:0", "fake"
  // Whether device memory is host memory: then a lane uses the pinned slot itself and enqueues no copies.
  virtual bool SharesHostMemory() const = 0;
  virtual absl::StatusOr<DeviceBuffer> AllocatePinned(size_t bytes) = 0;
  virtual absl::StatusOr<DeviceBuffer> AllocateDevice(size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceStream>> CreateStream(size_t lane) = 0;
};

}  // namespace tributary
