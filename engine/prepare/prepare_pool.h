// The preparation pool: tokenises and decodes on its own threads, between admission and the modality queues.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/observer.h"
#include "engine/api/options.h"
#include "engine/base/bounded_queue.h"
#include "engine/base/clock.h"
#include "engine/base/worker_thread.h"
#include "engine/prepare/preparer.h"
#include "engine/queue/work_item.h"

namespace tributary {

// How the items of one model are prepared. Null: the model does not take that modality.
struct ModelPreparers {
  const TextPreparer* text = nullptr;
  const ImagePreparer* image = nullptr;
};

// One item to prepare and its raw input; the input's views are kept alive by the item's sink.
struct PrepareEntry {
  WorkItemPtr item;
  std::variant<TextInput, ImageInput> input;
  Truncation truncation = Truncation::kEnd;
  const ModelPreparers* preparers = nullptr;
};

// Threads "trib-token-N" for texts and "trib-decode-N" for images. Each item is prepared on its own: a call of many
// inputs spreads over all threads of its kind. A text takes microseconds, an image milliseconds: texts have threads of
// their own, so that images cannot hold them all; which of them runs is the system's choice. Of each kind interactive
// work leaves first, and while bulk work waits every eighth entry is of that. Called by engine/pipeline; feeds `next`
// with prepared items (units and times set), on the pool's threads. Invariants: an accepted item goes to `next` or is
// completed here: dropped (cancelled, expired, shutdown) before it
//   costs anything, refused by a limit or its preparer, or INTERNAL where the preparer threw.
// Who checks what: the pool the configured limits of an input's size; the preparers what model and format allow.
// Thread-safety: Submit, DepthItems and Busy from any thread; Start and Stop from the owner.
// Ownership: preparers, clock, observer and what `next` uses outlive it.
class PreparePool {
 public:
  using Next = std::function<void(WorkItemPtr)>;

  // `capacity`, of each kind: what admission lets in at most, so that Submit cannot fail.
  PreparePool(size_t capacity, const InputLimits& limits, const Clock* clock, Observer* observer, Next next);
  ~PreparePool() { Stop(); }

  // Once, with `threads` >= 1 of each kind. Throws std::system_error where the system refuses a thread; Stop() ends
  // those it gave.
  void Start(size_t threads);

  // Never blocks. After Stop(), and beyond the capacity, the item is completed with UNAVAILABLE.
  void Submit(PrepareEntry entry);
  // Ends the threads after the item each one holds; what waits is dropped with UNAVAILABLE. Idempotent.
  void Stop();
  size_t DepthItems() const { return texts_.size() + images_.size(); }
  // Whether an item waits here or is being prepared.
  bool Busy() const { return DepthItems() > 0 || preparing_.load(std::memory_order_relaxed) > 0; }

 private:
  void Loop(BoundedQueue<PrepareEntry>* entries);
  void Prepare(PrepareEntry entry);
  absl::Status Fill(const PrepareEntry& entry, WorkItem& item) const;

  const InputLimits limits_;
  const Clock* const clock_;
  Observer* const observer_;
  const Next next_;
  BoundedQueue<PrepareEntry> texts_;
  BoundedQueue<PrepareEntry> images_;
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> preparing_{0};  // items; relaxed: a gauge
  std::vector<WorkerThread> threads_;
};

}  // namespace tributary
