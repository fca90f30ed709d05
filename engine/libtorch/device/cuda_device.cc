#include "engine/libtorch/device/cuda_device.h"

#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/worker_thread.h"

namespace tributary {
namespace {

absl::Status FromCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

// Events of one stream, made once and used again. Thread-safety: Take on the lane thread, Give on the reaper.
class EventPool {
 public:
  ~EventPool() {
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
  }
  cudaError_t Take(cudaEvent_t* event) {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        *event = free_.back();
        free_.pop_back();
        return cudaSuccess;
      }
    }
    // Blocking: the reaper sleeps instead of spinning on a core that preparation could use.
    return cudaEventCreateWithFlags(event, cudaEventBlockingSync);
  }
  void Give(cudaEvent_t event) {
    std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

// Turns events into moments of the host's clock. The GPU's own interval between two neighbouring events is exact to
// about half a microsecond; a sum of intervals would drift, so a pause re-anchors it and it never runs ahead of the
// host.
class EventClock {
 public:
  explicit EventClock(Clock* clock) : clock_(clock) {}
  // `event` has completed. Takes it over as the next base and returns the previous base (null at first) for reuse.
  cudaEvent_t Advance(cudaEvent_t event, TimePoint* reached) {
    const TimePoint now = clock_->Now();
    TimePoint moment = now;
    float millis = 0;
    if (base_ != nullptr && now - base_time_ < std::chrono::seconds(1) &&
        cudaEventElapsedTime(&millis, base_, event) == cudaSuccess) {
      moment = std::min(now, base_time_ + FromSeconds(millis * 1e-3));
    }
    *reached = moment;
    base_time_ = moment;
    return std::exchange(base_, event);
  }
  cudaEvent_t base() const { return base_; }

 private:
  Clock* const clock_;
  cudaEvent_t base_ = nullptr;
  TimePoint base_time_{};
};

// Thread-safety: CopyIn, CopyOut, Launch, Record from the lane's thread; callbacks run on the reaper ("trib-reap-N").
// Invariant: the reaper runs callbacks in the order of Record and ends only after the last one.
class CudaStream final : public DeviceStream {
 public:
  CudaStream(int device, size_t lane, Clock* clock)
      : device_(device),
        clock_(clock),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, static_cast<c10::DeviceIndex>(device))),
        event_clock_(clock) {
    reaper_ = WorkerThread(absl::StrCat("trib-reap-", lane), [this] { Reap(); });
  }

  ~CudaStream() override {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    pending_.notify_one();
    reaper_.Join();
    if (event_clock_.base() != nullptr) cudaEventDestroy(event_clock_.base());
  }

  absl::Status CopyIn(std::byte* device, const std::byte* pinned, size_t bytes) override {
    return Note(OnDevice(
        "copy in", [&] { return cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream_.stream()); }));
  }

  absl::Status CopyOut(std::byte* pinned, const std::byte* device, size_t bytes) override {
    return Note(OnDevice(
        "copy out", [&] { return cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, stream_.stream()); }));
  }

  absl::Status Launch(absl::AnyInvocable<absl::Status() &&> work) override {
    try {
      c10::InferenceMode inference;
      c10::cuda::CUDAStreamGuard guard(stream_);
      return Note(std::move(work)());
    } catch (const std::exception& error) {
      return Note(absl::InternalError(error.what()));
    }
  }

  absl::Status Record(EventCallback callback) override {
    absl::Status status = std::exchange(first_error_, absl::OkStatus());
    cudaEvent_t event = nullptr;
    status.Update(OnDevice("event", [&] {
      const cudaError_t taken = events_.Take(&event);
      return taken == cudaSuccess ? cudaEventRecord(event, stream_.stream()) : taken;
    }));
    {
      std::lock_guard lock(mutex_);
      queue_.push_back({event, std::move(status), std::move(callback)});
    }
    pending_.notify_one();
    return absl::OkStatus();
  }

 private:
  struct Mark {
    cudaEvent_t event;  // null: could not be recorded, `status` says why
    absl::Status status;
    EventCallback callback;
  };

  // `call` with the stream's device as the calling thread's current one, which is device 0 on a fresh thread: an event
  // belongs to the device it was made on, and is refused by the streams of others.
  template <class Call>
  absl::Status OnDevice(const char* what, Call call) const {
    try {
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
      return FromCuda(call(), what);
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat(what, ": ", error.what()));
    }
  }

  absl::Status Note(absl::Status status) {
    first_error_.Update(status);
    return status;
  }

  void Reap() {
    static_cast<void>(cudaSetDevice(device_));  // where it fails, so do the events
    while (true) {
      Mark mark{};
      {
        std::unique_lock lock(mutex_);
        pending_.wait(lock, [&] { return closed_ || !queue_.empty(); });
        if (queue_.empty()) return;
        mark = std::move(queue_.front());
        queue_.pop_front();
      }
      TimePoint reached = clock_->Now();
      if (mark.event != nullptr) {
        mark.status.Update(FromCuda(cudaEventSynchronize(mark.event), "device"));
        if (cudaEvent_t previous = event_clock_.Advance(mark.event, &reached); previous != nullptr) {
          events_.Give(previous);
        }
      }
      std::move(mark.callback)(std::move(mark.status), reached);
    }
  }

  const int device_;
  Clock* const clock_;
  const c10::cuda::CUDAStream stream_;
  EventPool events_;
  EventClock event_clock_;    // reaper thread only
  absl::Status first_error_;  // lane thread only: since the last Record
  std::mutex mutex_;
  std::condition_variable pending_;
  std::deque<Mark> queue_;  // bounded by the lane: a few events a slot
  bool closed_ = false;
  WorkerThread reaper_;  // last: uses everything above
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, Clock* clock) : index_(index), clock_(clock) {}

  std::string Name() const override { return absl::StrCat("cuda:", index_); }
  bool SharesHostMemory() const override { return false; }

  absl::StatusOr<DeviceBuffer> AllocatePinned(size_t bytes) override {
    c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index_));
    void* data = nullptr;
    if (absl::Status s = FromCuda(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), "cudaHostAlloc"); !s.ok())
      return s;
    return DeviceBuffer{{static_cast<std::byte*>(data), [](std::byte* p) { cudaFreeHost(p); }}, bytes};
  }

  absl::StatusOr<DeviceBuffer> AllocateDevice(size_t bytes) override {
    c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index_));
    void* data = nullptr;
    if (absl::Status s = FromCuda(cudaMalloc(&data, bytes), "cudaMalloc"); !s.ok()) return s;
    return DeviceBuffer{{static_cast<std::byte*>(data), [](std::byte* p) { cudaFree(p); }}, bytes};
  }

  absl::StatusOr<std::unique_ptr<DeviceStream>> CreateStream(size_t lane) override {
    try {
      return std::make_unique<CudaStream>(index_, lane, clock_);
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("stream on ", Name(), ": ", error.what()));
    }
  }

 private:
  const int index_;
  Clock* const clock_;
};

}  // namespace

void ReleaseCachedCudaMemory() {
  try {
    if (CudaDeviceCount() > 0) c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception&) {
    // A device that has failed gives nothing back; its lanes say so.
  }
}

int CudaDeviceCount() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int index, Clock* clock) {
  const int count = CudaDeviceCount();
  if (index < 0 || index >= count) {
    return absl::UnavailableError(absl::StrCat("no device cuda:", index, ": this process sees ", count, " GPUs"));
  }
  return std::make_unique<CudaDevice>(index, clock);
}

}  // namespace tributary
