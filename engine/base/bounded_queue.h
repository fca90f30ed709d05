// A closable bounded queue on a mutex: hands work to the preparation pool and to the completion threads.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "engine/base/mutex.h"

namespace tributary {

// Any number of producers and consumers, two classes of entries: interactive ones leave first, but while bulk ones wait
// every `bulk_every`-th pop takes a bulk one, so that they cannot starve. First in, first out within a class.
// Invariants: size() <= capacity(); after Close() no push succeeds, and what was accepted before is still popped.
// Thread-safety: all methods from any thread. What happened before a push is visible after the pop of that entry.
// Ownership: a refused entry stays with the caller, unchanged. Entries left over are destroyed with the queue.
template <class T>
class BoundedQueue {
 public:
  // `bulk_every` >= 1; 1: bulk before interactive.
  explicit BoundedQueue(size_t capacity, size_t bulk_every = 8) : capacity_(capacity), bulk_every_(bulk_every) {}

  // False: full or closed. Never blocks (other than for the lock).
  bool TryPush(T&& entry) { return TryPushTo(interactive_, std::move(entry)); }
  bool TryPushBulk(T&& entry) { return TryPushTo(bulk_, std::move(entry)); }

  // Waits for an entry; nullopt: closed and empty.
  std::optional<T> Pop() TRIBUTARY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (interactive_.empty() && bulk_.empty()) {
      if (closed_) return std::nullopt;
      not_empty_.Wait(mutex_);
    }
    return Take();
  }

  // nullopt: empty.
  std::optional<T> TryPop() TRIBUTARY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (interactive_.empty() && bulk_.empty()) return std::nullopt;
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
    return interactive_.size() + bulk_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  bool TryPushTo(std::deque<T>& entries, T&& entry) TRIBUTARY_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (closed_ || interactive_.size() + bulk_.size() >= capacity_) return false;
      entries.push_back(std::move(entry));
    }
    not_empty_.NotifyOne();
    return true;
  }

  std::optional<T> Take() TRIBUTARY_REQUIRES(mutex_) {
    const bool bulk_is_due = !bulk_.empty() && ++pops_since_bulk_ >= bulk_every_;
    std::deque<T>& entries = bulk_is_due || interactive_.empty() ? bulk_ : interactive_;
    if (&entries == &bulk_) pops_since_bulk_ = 0;
    std::optional<T> entry(std::move(entries.front()));
    entries.pop_front();
    return entry;
  }

  const size_t capacity_;
  const size_t bulk_every_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  std::deque<T> interactive_ TRIBUTARY_GUARDED_BY(mutex_);
  std::deque<T> bulk_ TRIBUTARY_GUARDED_BY(mutex_);
  size_t pops_since_bulk_ TRIBUTARY_GUARDED_BY(mutex_) = 0;  // pops while bulk entries were waiting
  bool closed_ TRIBUTARY_GUARDED_BY(mutex_) = false;
};

}  // namespace tributary
