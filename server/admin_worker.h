// The thread on which models are loaded and unloaded: seconds to minutes that no gRPC thread may spend.
#pragma once

#include <cstddef>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "engine/base/bounded_queue.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/worker_thread.h"

namespace tributary {

// One thread, "trib-admin"; operations run on it one after the other. Called by server/admin_service.
// Invariants: an operation accepted is called exactly once: to run, or, from Close() on, with a status that says why
// not. Thread-safety: all methods from any thread. Ownership: the destructor waits for the operation under way.
class AdminWorker {
 public:
  static constexpr size_t kMaxWaiting = 8;

  // OK: run it. Else: answer with this.
  using Operation = absl::AnyInvocable<void(const absl::Status& refusal) &&>;

  AdminWorker();
  ~AdminWorker();

  // Never blocks. Errors: RESOURCE_EXHAUSTED too many wait; UNAVAILABLE closed; the operation is then not called.
  absl::Status Submit(Operation operation);
  // Refuses what waits with UNAVAILABLE, on this thread, and all that comes. Idempotent.
  void Close();
  // After Close(). True: no operation is under way. False: `wake_at` of the steady clock has passed.
  bool WaitUntilIdle(TimePoint wake_at);

 private:
  void Loop();

  BoundedQueue<Operation> waiting_;
  Mutex mutex_;
  CondVar idle_;
  bool closed_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  bool running_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  WorkerThread thread_;
};

}  // namespace tributary
