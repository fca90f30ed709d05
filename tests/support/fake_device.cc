#include "tests/support/fake_device.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <utility>

#include "engine/base/worker_thread.h"

namespace tributary {
namespace {

constexpr std::byte kPoison{0xFF};

uint64_t ChecksumOf(const std::byte* data, size_t bytes) {  // FNV-1a
  uint64_t sum = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < bytes; ++i) sum = (sum ^ static_cast<uint64_t>(data[i])) * 0x100000001b3ull;
  return sum;
}

}  // namespace

// What is known of one lane's stream; outlives the stream, so that tests can look at it afterwards.
struct FakeDevice::LaneState {
  struct Operation {
    std::string name;
    absl::AnyInvocable<absl::Status() &&> work;  // copies and launches
    EventCallback event;                         // records
    bool fails = false;
  };
  // Staging memory under a copy, until the event after it.
  struct Use {
    std::byte* pinned = nullptr;
    size_t bytes = 0;
    uint64_t checksum = 0;           // of what the host must leave alone
    bool copied = false;             // the copy has run; the next event ends the use
    std::vector<std::byte> arrived;  // of a copy out: appears with the event
  };

  // One operation that goes wrong.
  struct Fault {
    std::string name;  // empty: none
    size_t skip = 0;
    bool Hits(const std::string& operation) {
      if (name != operation || skip-- > 0) return false;
      name.clear();
      return true;
    }
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Operation> operations;
  std::vector<std::string> enqueued;
  size_t executed = 0;
  size_t streams = 0;
  std::vector<std::unique_ptr<Use>> uses;
  std::vector<std::string> violations;
  Fault refuse;
  Fault fail;
  absl::Status since_last_event;  // stepping thread only

  Use* Watch(std::byte* pinned, size_t bytes) {  // under mutex
    for (const auto& use : uses) {
      if (pinned < use->pinned + use->bytes && use->pinned < pinned + bytes) {
        violations.push_back("a staging slot was reused before its event");
      }
    }
    uses.push_back(std::make_unique<Use>());
    uses.back()->pinned = pinned;
    uses.back()->bytes = bytes;
    return uses.back().get();
  }

  void CheckUntouched(const Use& use) {
    if (ChecksumOf(use.pinned, use.bytes) != use.checksum) {
      violations.push_back("staging memory was touched before its event");
    }
  }

  absl::Status Enqueue(Operation operation) {  // under mutex
    if (refuse.Hits(operation.name)) {
      return absl::UnavailableError("the fake device refuses this " + operation.name);
    }
    operation.fails = fail.Hits(operation.name);
    enqueued.push_back(operation.name);
    operations.push_back(std::move(operation));
    changed.notify_all();
    return absl::OkStatus();
  }

  bool Step(const Clock* clock) {
    Operation operation;
    {
      std::lock_guard lock(mutex);
      if (operations.empty()) return false;
      operation = std::move(operations.front());
      operations.pop_front();
      if (operation.event) EndUses();
    }
    if (operation.event) {
      if (operation.fails) since_last_event.Update(absl::InternalError("the fake device was told to fail"));
      std::move(operation.event)(std::exchange(since_last_event, absl::OkStatus()), clock->Now());
    } else {
      absl::Status status;
      try {
        status = std::move(operation.work)();
      } catch (const std::exception& error) {
        status = absl::InternalError(error.what());
      }
      if (operation.fails) status = absl::InternalError("the fake device was told to fail");
      since_last_event.Update(status);
    }
    std::lock_guard lock(mutex);
    ++executed;
    changed.notify_all();
    return true;
  }

  void EndUses() {  // under mutex
    for (const auto& use : uses) {
      if (!use->copied) continue;
      CheckUntouched(*use);
      if (!use->arrived.empty()) std::memcpy(use->pinned, use->arrived.data(), use->bytes);
    }
    std::erase_if(uses, [](const auto& use) { return use->copied; });
  }
};

class FakeDevice::Stream final : public DeviceStream {
 public:
  Stream(LaneState* state, const Clock* clock, Steps steps) : state_(state), clock_(clock) {
    if (steps == Steps::kOwnThread) thread_ = WorkerThread("fake-stream", [this] { Loop(); });
  }
  ~Stream() override {
    {
      std::lock_guard lock(state_->mutex);
      closed_ = true;
      state_->changed.notify_all();
    }
    thread_.Join();
    while (state_->Step(clock_)) continue;
    std::lock_guard lock(state_->mutex);
    state_->EndUses();  // drained: as good as an event
  }

  absl::Status CopyIn(std::byte* device, const std::byte* pinned, size_t bytes) override {
    std::lock_guard lock(state_->mutex);
    LaneState::Use* use = state_->Watch(const_cast<std::byte*>(pinned), bytes);
    use->checksum = ChecksumOf(pinned, bytes);
    return EnqueueCopy({"copy_in",
                        [this, use, device] {
                          std::lock_guard in_step(state_->mutex);
                          state_->CheckUntouched(*use);
                          std::memcpy(device, use->pinned, use->bytes);
                          use->copied = true;
                          return absl::OkStatus();
                        },
                        {}});
  }
  absl::Status CopyOut(std::byte* pinned, const std::byte* device, size_t bytes) override {
    std::lock_guard lock(state_->mutex);
    LaneState::Use* use = state_->Watch(pinned, bytes);
    std::memset(pinned, static_cast<int>(kPoison), bytes);
    use->checksum = ChecksumOf(pinned, bytes);
    return EnqueueCopy({"copy_out",
                        [this, use, device] {
                          std::lock_guard in_step(state_->mutex);
                          use->arrived.assign(device, device + use->bytes);
                          use->copied = true;
                          return absl::OkStatus();
                        },
                        {}});
  }
  absl::Status Launch(absl::AnyInvocable<absl::Status() &&> work) override {
    std::lock_guard lock(state_->mutex);
    return state_->Enqueue({"launch", std::move(work), {}});
  }
  absl::Status Record(EventCallback callback) override {
    std::lock_guard lock(state_->mutex);
    return state_->Enqueue({"record", {}, std::move(callback)});
  }

 private:
  absl::Status EnqueueCopy(LaneState::Operation operation) {  // under mutex
    absl::Status status = state_->Enqueue(std::move(operation));
    if (!status.ok()) state_->uses.pop_back();
    return status;
  }

  void Loop() {
    for (;;) {
      {
        std::unique_lock lock(state_->mutex);
        state_->changed.wait(lock, [this] { return closed_ || !state_->operations.empty(); });
        if (state_->operations.empty()) return;
      }
      state_->Step(clock_);
    }
  }

  LaneState* const state_;
  const Clock* const clock_;
  bool closed_ = false;
  WorkerThread thread_;
};

FakeDevice::FakeDevice(const Clock* clock, Steps steps, std::string name)
    : clock_(clock), steps_(steps), name_(std::move(name)) {}
FakeDevice::~FakeDevice() = default;

absl::StatusOr<DeviceBuffer> FakeDevice::AllocatePinned(size_t bytes) {
  if (refuse_allocations_) return absl::ResourceExhaustedError("the fake device has no memory left");
  DeviceBuffer buffer{std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>()), bytes};
  std::memset(buffer.data.get(), static_cast<int>(kPoison), bytes);
  return buffer;
}
absl::StatusOr<DeviceBuffer> FakeDevice::AllocateDevice(size_t bytes) { return AllocatePinned(bytes); }

absl::StatusOr<std::unique_ptr<DeviceStream>> FakeDevice::CreateStream(size_t lane) {
  LaneState& state = StateOf(lane);
  {
    std::lock_guard lock(state.mutex);
    ++state.streams;
  }
  return std::make_unique<Stream>(&state, clock_, steps_);
}

FakeDevice::LaneState& FakeDevice::StateOf(size_t lane) const {
  std::lock_guard lock(mutex_);
  std::unique_ptr<LaneState>& state = lanes_[lane];
  if (!state) state = std::make_unique<LaneState>();
  return *state;
}

bool FakeDevice::Step(size_t lane) { return StateOf(lane).Step(clock_); }

void FakeDevice::StepAll(size_t lane) {
  while (Step(lane)) continue;
}

void FakeDevice::WaitUntilEnqueued(size_t operations, size_t lane) {
  LaneState& state = StateOf(lane);
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.enqueued.size() >= operations; });
}

std::vector<std::string> FakeDevice::Enqueued(size_t lane) const {
  LaneState& state = StateOf(lane);
  std::lock_guard lock(state.mutex);
  return state.enqueued;
}

size_t FakeDevice::Executed(size_t lane) const {
  LaneState& state = StateOf(lane);
  std::lock_guard lock(state.mutex);
  return state.executed;
}

size_t FakeDevice::StreamsCreated() const {
  size_t streams = 0;
  std::lock_guard lock(mutex_);
  for (const auto& [lane, state] : lanes_) {
    std::lock_guard lane_lock(state->mutex);
    streams += state->streams;
  }
  return streams;
}

void FakeDevice::RefuseWhenEnqueued(std::string operation, size_t skip) {
  LaneState& state = StateOf(0);
  std::lock_guard lock(state.mutex);
  state.refuse = {std::move(operation), skip};
}

void FakeDevice::FailWhenRun(std::string operation, size_t skip) {
  LaneState& state = StateOf(0);
  std::lock_guard lock(state.mutex);
  state.fail = {std::move(operation), skip};
}

std::vector<std::string> FakeDevice::Violations() const {
  std::vector<std::string> all;
  std::lock_guard lock(mutex_);
  for (const auto& [lane, state] : lanes_) {
    std::lock_guard lane_lock(state->mutex);
    all.insert(all.end(), state->violations.begin(), state->violations.end());
  }
  return all;
}

}  // namespace tributary
