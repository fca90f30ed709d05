// Counts what the server still owes its clients: the drain waits for it.
#pragma once

#include <cstddef>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"

namespace tributary {

// gRPC's own shutdown also waits for calls that never end (a health Watch, an idle EmbedStream), so the server counts
// for itself: an embedding call from its arrival until OnDone, an input of a stream until its answer is written.
// Thread-safety: all methods from any thread.
class CallTracker {
 public:
  // False: closed, and not counted.
  bool TryAdd() {
    MutexLock lock(mutex_);
    if (closed_) return false;
    ++open_;
    return true;
  }
  // From now on nothing is added: however many clients come back, the count reaches 0.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  // Touches nothing after the count has reached the waiter.
  void Remove(size_t count = 1) {
    MutexLock lock(mutex_);
    open_ -= count;
    if (open_ == 0) none_open_.NotifyAll();
  }
  size_t open() const {
    MutexLock lock(mutex_);
    return open_;
  }
  // True: nothing is open. False: `wake_at` of the steady clock has passed.
  bool WaitUntilNone(TimePoint wake_at) {
    MutexLock lock(mutex_);
    while (open_ != 0) {
      if (!none_open_.WaitUntil(mutex_, wake_at)) return open_ == 0;
    }
    return true;
  }

 private:
  mutable Mutex mutex_;
  CondVar none_open_;
  size_t open_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
  bool closed_ TRIBUTARY_GUARDED_BY(mutex_) = false;
};

}  // namespace tributary
