// A closable bounded queue on a mutex: hands work to the preparation pool and to the completion threads.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"

namespace tributary {

// Any number of producers and consumers, one FIFO a class of entries. The lowest class that waits leaves first, but one
// that was passed over `turn_every` - 1 times is due (of several the one that waits longer), so that none can starve.
// Invariants: size() <= capacity(); after Close() no push succeeds, and what was accepted before is still popped.
// Thread-safety: all methods from any thread. What happened before a push is visible after the pop of that entry.
// Ownership: a refused entry stays with the caller, unchanged. Entries left over are destroyed with the queue.
template <class T>
class BoundedQueue {
 public:
  // `capacity` is that of all classes together; `classes` and `turn_every` >= 1.
  explicit BoundedQueue(size_t capacity, size_t classes = 1, size_t turn_every = 8)
      : capacity_(capacity), turn_every_(turn_every), classes_(classes) {}

  // False: full or closed. Never blocks (other than for the lock).
  bool TryPush(T&& entry, size_t of_class = 0) TRIBUTARY_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (closed_ || size_ >= capacity_) return false;
      classes_[of_class].entries.push_back(std::move(entry));
      ++size_;
    }
    not_empty_.NotifyOne();
    return true;
  }

  // Waits for an entry; nullopt: closed and empty.
  std::optional<T> Pop() TRIBUTARY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (size_ == 0) {
      if (closed_) return std::nullopt;
      not_empty_.Wait(mutex_);
    }
    return Take();
  }

  // nullopt: empty.
  std::optional<T> TryPop() TRIBUTARY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (size_ == 0) return std::nullopt;
    return Take();
  }

  // Ends every Pop() once the queue has run empty. Idempotent.
  void Close() TRIBUTARY_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    not_empty_.NotifyAll();
  }

  size_t size() const TRIBUTARY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return size_;
  }
  size_t capacity() const { return capacity_; }

 private:
  struct Class {
    std::deque<T> entries;
    size_t pops_waiting = 0;  // pops since it was last taken, while it had entries
  };

  std::optional<T> Take() TRIBUTARY_REQUIRES(mutex_) {
    Class* next = nullptr;
    for (Class& waiting : classes_) {
      if (waiting.entries.empty()) continue;
      ++waiting.pops_waiting;
      const bool due = waiting.pops_waiting >= turn_every_;
      if (next == nullptr || (due && waiting.pops_waiting > next->pops_waiting)) next = &waiting;
    }
    next->pops_waiting = 0;
    std::optional<T> entry(std::move(next->entries.front()));
    next->entries.pop_front();
    --size_;
    return entry;
  }

  const size_t capacity_;
  const size_t turn_every_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  std::vector<Class> classes_ TRIBUTARY_GUARDED_BY(mutex_);
  size_t size_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
  bool closed_ TRIBUTARY_GUARDED_BY(mutex_) = false;
};

}  // namespace tributary
