// The scheduler: takes prepared items from the modality queues, forms batches and hands them to lanes. Between
// engine/queue and engine/lane; one thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/observer.h"
#include "engine/api/options.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/parker.h"
#include "engine/base/worker_thread.h"
#include "engine/queue/modality_queue.h"
#include "engine/queue/work_item.h"
#include "engine/schedule/batch_executor.h"
#include "engine/schedule/encoder_spec.h"

namespace tributary {

// Items of one modality in the scheduler's hands: taken from the queue, not yet in a batch.
struct WaitingSnapshot {
  size_t items = 0;
  TimePoint oldest_queued;  // ItemTimes::queued of the longest waiting one; the epoch value where items is 0; a
                            // gauge, may lag items
};

// See engine/schedule/README.md for the rules it follows.
// Called by engine/pipeline; feeds BatchExecutor (the lanes), which report back through OnBatchDone.
// Invariants: every item popped from a queue leaves exactly once: in a batch, or failed (expired, too late, cancelled,
//   shutdown) before it cost compute. While a lane is idle and work it serves waits, a batch is handed over, unless
//   BatchOptions::max_wait says otherwise.
// Thread-safety: NotifyQueued, Waiting, OnBatchDone, AddEncoder and RemoveEncoder from any thread; the rest from the
//   owner.
// Ownership: queues, executor, clock and observer outlive it. No OnBatchDone may come after its destruction: let the
//   lanes finish first. Items pushed after Stop() stay in their queue.
class BatchScheduler final : public BatchListener {
 public:
  // `encoders[i]`: the encoder with EncoderIndex i. `queues`: null where no encoder has that modality. Index: Modality.
  BatchScheduler(const ScheduleOptions& options, const std::vector<EncoderSpec>& encoders,
                 std::array<ModalityQueue<WorkItemPtr>*, kModalityCount> queues, BatchExecutor* executor,
                 const Clock* clock, Observer* observer);
  ~BatchScheduler() override;

  // Takes in an encoder, under an index that none has, or lets one go of which no item will come any more and none
  // waits. Both wait for the scheduler's thread to do it, RemoveEncoder until no batch of it is in flight: after that
  // its index is free for another one, and nothing of it is remembered. Any thread but the scheduler's and the lanes'.
  // False: the scheduler was stopped before.
  bool AddEncoder(EncoderIndex encoder, EncoderSpec spec);
  bool RemoveEncoder(EncoderIndex encoder);

  // Starts the thread ("trib-sched"). At most once.
  void Start();
  // Ends the thread and fails what waits here and in the queues with UNAVAILABLE. Batches in flight go on. Idempotent.
  void Stop();

  // Call after each push to a queue. Cheap.
  void NotifyQueued();

  // One turn on the caller's thread, for tests that did not Start(). True: it did something (so call it again).
  bool RunOnce();

  WaitingSnapshot Waiting(Modality modality) const;

  void OnBatchDone(const BatchOutcome& outcome) override;

 private:
  struct State;  // what only the scheduler's thread touches

  // WaitingSnapshot for other threads. Relaxed: the two values may be of neighbouring turns.
  struct Gauge {
    std::atomic<size_t> items{0};
    std::atomic<Duration::rep> oldest_queued_nanos{0};
  };

  // One encoder to come or to go.
  struct Change {
    EncoderIndex encoder = 0;
    std::optional<EncoderSpec> spec;  // nullopt: to go
    bool done = false;                // guarded by inbox_mutex_
  };

  bool Await(const std::shared_ptr<Change>& change);
  bool TakeChanges();
  void Run();
  void Publish();

  const std::unique_ptr<State> state_;
  Parker parker_;
  std::atomic<bool> stopping_{false};
  Mutex inbox_mutex_;
  CondVar change_done_;
  std::vector<BatchOutcome> outcomes_ TRIBUTARY_GUARDED_BY(inbox_mutex_);  // reported
  std::vector<BatchOutcome> taken_outcomes_;                               // scheduler's thread only: not yet worked in
  // Asked for, not yet taken in: at most one a caller.
  std::vector<std::shared_ptr<Change>> changes_ TRIBUTARY_GUARDED_BY(inbox_mutex_);
  std::vector<std::shared_ptr<Change>> pending_changes_;  // scheduler's thread only: taken in, not yet possible
  std::array<Gauge, kModalityCount> gauges_;              // index: Modality
  WorkerThread thread_;
};

}  // namespace tributary
