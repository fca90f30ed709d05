#include "engine/lane/cpu_device.h"

#include <pthread.h>
#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/mutex.h"
#include "engine/base/worker_thread.h"

namespace tributary {
namespace {

// A cache line, and the widest vector registers.
constexpr size_t kAlignment = 64;
// Far above what lanes enqueue (four entries a slot); bounds a caller that never waits for its events.
constexpr size_t kMaxEnqueued = 1024;

using Work = absl::AnyInvocable<absl::Status() &&>;

absl::Status PinThisThread(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return absl::InvalidArgumentError(absl::StrCat("there is no CPU ", cpu));
  CPU_SET(cpu, &cpus);
  if (const int error = pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a lane cannot run on CPU ", cpu, ": ", std::strerror(error)));
  }
  return absl::OkStatus();
}

// One worker thread and its FIFO.
// Invariants: entries run in order of enqueuing; the destructor runs what is left, then joins.
class CpuStream final : public DeviceStream {
 public:
  explicit CpuStream(const Clock* clock) : clock_(clock) {}
  ~CpuStream() override {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    wake_.NotifyOne();
    thread_.Join();
  }

  absl::Status Start(size_t lane, int cpu, std::function<void(size_t)> thread_init) {
    std::promise<absl::Status> started;
    std::future<absl::Status> status = started.get_future();
    thread_ = WorkerThread(absl::StrCat("trib-cpu-", lane),
                           [this, lane, cpu, thread_init = std::move(thread_init), &started] {
                             absl::Status pinned = cpu < 0 ? absl::OkStatus() : PinThisThread(cpu);
                             if (pinned.ok() && thread_init) thread_init(lane);
                             started.set_value(std::move(pinned));
                             Loop();
                           });
    return status.get();
  }

  absl::Status CopyIn(std::byte* device, const std::byte* pinned, size_t bytes) override {
    return Copy(device, pinned, bytes);
  }
  absl::Status CopyOut(std::byte* pinned, const std::byte* device, size_t bytes) override {
    return Copy(pinned, device, bytes);
  }
  absl::Status Launch(Work work) override { return Push({std::move(work), {}}); }
  absl::Status Record(EventCallback callback) override { return Push({{}, std::move(callback)}); }

 private:
  // Exactly one of the two is set.
  struct Entry {
    Work work;
    EventCallback event;
  };

  absl::Status Copy(std::byte* to, const std::byte* from, size_t bytes) {
    if (to == from) return absl::OkStatus();
    return Launch([to, from, bytes] {
      std::memcpy(to, from, bytes);
      return absl::OkStatus();
    });
  }

  absl::Status Push(Entry entry) {
    {
      MutexLock lock(mutex_);
      if (entries_.size() >= kMaxEnqueued) {
        return absl::ResourceExhaustedError(absl::StrCat("a CPU stream holds at most ", kMaxEnqueued, " entries"));
      }
      entries_.push_back(std::move(entry));
    }
    wake_.NotifyOne();
    return absl::OkStatus();
  }

  void Loop() {
    absl::Status since_last_event;
    for (;;) {
      Entry entry;
      {
        MutexLock lock(mutex_);
        while (entries_.empty() && !closed_) wake_.Wait(mutex_);
        if (entries_.empty()) return;
        entry = std::move(entries_.front());
        entries_.pop_front();
      }
      if (entry.event) {
        std::move(entry.event)(std::exchange(since_last_event, absl::OkStatus()), clock_->Now());
      } else {
        since_last_event.Update(RunCaught(std::move(entry.work)));
      }
    }
  }

  static absl::Status RunCaught(Work work) {
    try {
      return std::move(work)();
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("the batch failed: ", error.what()));
    } catch (...) {
      return absl::InternalError("the batch failed: unknown exception");
    }
  }

  const Clock* const clock_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Entry> entries_ TRIBUTARY_GUARDED_BY(mutex_);
  bool closed_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  WorkerThread thread_;  // last: it uses all of the above
};

class CpuDevice final : public Device {
 public:
  CpuDevice(CpuDeviceOptions options, const Clock* clock) : options_(std::move(options)), clock_(clock) {}

  std::string Name() const override { return "cpu"; }
  bool SharesHostMemory() const override { return true; }
  absl::StatusOr<DeviceBuffer> AllocatePinned(size_t bytes) override {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
    if (data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", rounded, " bytes"));
    return DeviceBuffer{std::shared_ptr<std::byte>(data, [](std::byte* p) { std::free(p); }), bytes};
  }
  absl::StatusOr<DeviceBuffer> AllocateDevice(size_t bytes) override { return AllocatePinned(bytes); }
  absl::StatusOr<std::unique_ptr<DeviceStream>> CreateStream(size_t lane) override {
    const auto& cpus = options_.affinity;
    auto stream = std::make_unique<CpuStream>(clock_);
    absl::Status status = stream->Start(lane, cpus.empty() ? -1 : cpus[lane % cpus.size()], options_.thread_init);
    if (!status.ok()) return status;
    return stream;
  }

 private:
  const CpuDeviceOptions options_;
  const Clock* const clock_;
};

}  // namespace

std::unique_ptr<Device> CreateCpuDevice(CpuDeviceOptions options, const Clock* clock) {
  return std::make_unique<CpuDevice>(std::move(options), clock);
}

}  // namespace tributary
