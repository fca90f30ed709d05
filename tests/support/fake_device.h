// A device with its own memory whose streams are stepped by hand, or run by a thread of their own. It finds out whether
// a lane keeps to the rules of device.h: staging memory is left alone until the event recorded after its use has fired.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/lane/device.h"

namespace tributary {

// How it watches staging memory: the bytes of a copy in are read when the copy runs, and must not have changed since it
// was enqueued, nor until the next event; the target of a copy out is filled with 0xFF (NaN as float) when the copy is
// enqueued and until the next event, when the bytes appear, so that a vector read too early is no vector; memory under
// a copy must not be given to another one before its event. DeviceStream has no call that waits, and by hand nothing
// runs unless the test steps: a lane that waited for its device would stand still. Thread-safety: all methods from any
// thread; Step of one lane from one thread at a time. Ownership: outlives its streams.
class FakeDevice final : public Device {
 public:
  enum class Steps { kByHand, kOwnThread };
  explicit FakeDevice(const Clock* clock, Steps steps = Steps::kByHand, std::string name = "fake");
  ~FakeDevice() override;

  std::string Name() const override { return name_; }
  bool SharesHostMemory() const override { return false; }
  absl::StatusOr<DeviceBuffer> AllocatePinned(size_t bytes) override;
  absl::StatusOr<DeviceBuffer> AllocateDevice(size_t bytes) override;
  absl::StatusOr<std::unique_ptr<DeviceStream>> CreateStream(size_t lane) override;

  // Runs the lane's next operation on the caller's thread. False: nothing is enqueued.
  bool Step(size_t lane = 0);
  // Steps until nothing is enqueued.
  void StepAll(size_t lane = 0);
  // Waits until this many operations have been enqueued since the beginning.
  void WaitUntilEnqueued(size_t operations, size_t lane = 0);
  // Names of everything enqueued since the beginning: "copy_in", "copy_out", "launch", "record".
  std::vector<std::string> Enqueued(size_t lane = 0) const;
  size_t Executed(size_t lane = 0) const;
  size_t StreamsCreated() const;

  // Of lane 0: the next operation of this name is refused when it is enqueued, or fails when it runs. The n-th next
  // one: `skip` = n - 1.
  void RefuseWhenEnqueued(std::string operation, size_t skip = 0);
  void FailWhenRun(std::string operation, size_t skip = 0);

  // Whether allocations are refused from now on, for want of memory.
  void RefuseAllocations(bool refuse) { refuse_allocations_ = refuse; }

  // Broken rules, in words. Empty: none.
  std::vector<std::string> Violations() const;

 private:
  class Stream;
  struct LaneState;

  LaneState& StateOf(size_t lane) const;

  const Clock* const clock_;
  const Steps steps_;
  const std::string name_;
  std::atomic<bool> refuse_allocations_{false};
  mutable std::mutex mutex_;
  mutable std::map<size_t, std::unique_ptr<LaneState>> lanes_;
};

}  // namespace tributary
