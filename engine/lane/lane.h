// One lane: a thread that stages batches, a device stream that runs them, a ring of staging slots between the two.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/observer.h"
#include "engine/api/snapshot.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/worker_thread.h"
#include "engine/lane/batch_program.h"
#include "engine/lane/device.h"
#include "engine/schedule/batch.h"
#include "engine/schedule/batch_executor.h"

namespace tributary {

// What a staging slot has room for.
struct SlotSize {
  size_t input_bytes = 0;
  size_t output_bytes = 0;
  bool operator==(const SlotSize&) const = default;
  // Makes room for the largest batch of this program as well.
  void CoverProgram(const BatchProgram& program);
};

// Memory of one staging slot.
struct SlotMemory {
  DeviceBuffer pinned_input;
  DeviceBuffer pinned_output;
  DeviceBuffer device_input;  // the pinned ones where the device shares host memory
  DeviceBuffer device_output;
};

struct LaneParts {
  size_t index = 0;
  size_t slots = 2;  // staging slots = batches handed over and not yet done
  SlotSize slot_size;
  Device* device = nullptr;
  const Clock* clock = nullptr;
  Observer* observer = nullptr;
};

// Way of a batch: Execute puts it into the mailbox; the lane thread ("trib-lane-N") drops the items nobody waits for
// any more, stages the rest into the next slot of the ring and enqueues copy in, start event, run, end event, copy out,
// done event; the done event's callback, on a thread of the stream, completes the items. Nothing waits for the device
// between batches: a batch is staged while the one before it runs. Called by LaneSet; feeds Device, ItemSink,
// BatchListener, Observer. Invariants: at most `slots` batches are handed over and not done, so the slot after the last
// used one is always free
//   (the stream is in order); a slot is touched by the host only before its first enqueue and after its done event;
//   every batch ends in OnBatchDone; a vector that is not finite, or of length zero where it is to be normalised, is
//   never given out.
// Thread-safety: Execute and FreeSlots from the scheduler thread; the rest from any thread.
// Ownership: device, the batches' programs, clock, observer and listener outlive it. The destructor runs what was
// handed over. Errors: a failing Stage, Run or device fails the items of its batch with INTERNAL, and nothing else.
// Where the stream
//   refuses the done event, the stream is drained and made anew.
class Lane {
 public:
  static absl::StatusOr<std::unique_ptr<Lane>> Create(LaneParts parts);
  ~Lane();

  void SetListener(BatchListener* listener) { listener_ = listener; }
  size_t FreeSlots() const { return slots_.size() - InFlight(); }
  // Acquire: pairs with the release when a batch leaves, so that its slot may be staged anew.
  size_t InFlight() const { return in_flight_.load(std::memory_order_acquire); }
  void Execute(Batch batch);
  // Memory for all slots, to be given to UseSlots. Any thread. Errors: those of the device.
  absl::StatusOr<std::vector<SlotMemory>> AllocateSlots(const SlotSize& size) const;
  // Any thread. Batches handed over from now on are staged in this memory: the lane's thread exchanges a slot's before
  // it uses it next, when no batch is in it.
  void UseSlots(std::vector<SlotMemory> memory);
  // `waiting_for`: what an idle lane waits for by the state of the stages before the lanes, as of `now`. A gap is
  // accounted for up to `now` where that is NoWork, which nothing that comes later can change, or what it was at the
  // look before in this gap; else it stays open until its batch starts, whose own items tell the causes.
  LaneSnapshot Snapshot(IdleCause waiting_for, TimePoint now) const;

 private:
  // Staging memory and the batch it carries. Written by the lane thread until the first enqueue, then by the stream's
  // thread until the batch has left.
  struct Slot : SlotMemory {
    Batch batch;
    StagedBatch staged;
    TimePoint handed_at;
    TimePoint started_at;
    TimePoint ended_at;
    bool running = false;
    absl::Status enqueue_status;  // of the lane thread
    absl::Status status;          // of the stream's thread
  };
  struct Handed {
    Batch batch;
    TimePoint at;
  };

  explicit Lane(LaneParts parts);
  absl::Status EnsureStream();

  void Loop();
  void Take(Handed handed);
  absl::Status Stage(Slot& slot);
  void Enqueue(Slot& slot);

  // Events, on the stream's thread.
  void OnStarted(Slot& slot, const absl::Status& status, TimePoint at);
  void OnEnded(Slot& slot, const absl::Status& status, TimePoint at);
  void OnDone(Slot& slot, const absl::Status& status, TimePoint at);

  void AccountForGap(const Slot& slot) TRIBUTARY_REQUIRES(times_mutex_);
  void AccountUntil(TimePoint end, Duration* total) const TRIBUTARY_REQUIRES(times_mutex_);
  void CompleteItems(Slot& slot);
  void CompleteItem(const Slot& slot, size_t index, const absl::Status& batch_status);
  void Leave(Slot& slot);

  const LaneParts parts_;
  const bool shares_memory_;
  BatchListener* listener_ = nullptr;
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;  // lane thread only
  std::atomic<size_t> in_flight_{0};
  std::atomic<size_t> consecutive_failed_{0};  // batches; relaxed: a gauge

  Mutex mailbox_mutex_;
  CondVar mailbox_wake_;
  std::deque<Handed> mailbox_ TRIBUTARY_GUARDED_BY(mailbox_mutex_);
  std::vector<SlotMemory> new_memory_ TRIBUTARY_GUARDED_BY(mailbox_mutex_);  // as slots_, or empty
  bool closed_ TRIBUTARY_GUARDED_BY(mailbox_mutex_) = false;
  std::vector<SlotMemory> spare_memory_;  // lane thread only; as slots_, or empty; what was exchanged is empty

  mutable Mutex times_mutex_;
  // Mutable: a look accounts for the time up to it, so that what it has shown never shrinks.
  mutable std::array<Duration, kModalityCount> busy_ TRIBUTARY_GUARDED_BY(times_mutex_){};
  mutable std::array<Duration, kIdleCauseCount> idle_ TRIBUTARY_GUARDED_BY(times_mutex_){};
  mutable TimePoint accounted_until_ TRIBUTARY_GUARDED_BY(times_mutex_);
  mutable std::optional<IdleCause> last_look_ TRIBUTARY_GUARDED_BY(times_mutex_);  // of this gap
  std::optional<Modality> running_ TRIBUTARY_GUARDED_BY(times_mutex_);
  TimePoint running_since_ TRIBUTARY_GUARDED_BY(times_mutex_);
  TimePoint last_end_ TRIBUTARY_GUARDED_BY(times_mutex_);

  // Joined, then drained, by the destructor in this order.
  WorkerThread thread_;
  std::unique_ptr<DeviceStream> stream_;  // lane thread only, after Create
};

}  // namespace tributary
