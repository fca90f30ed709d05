// The engine's locks: std::mutex and std::condition_variable with clang's thread-safety attributes. Below everything
// else.
#pragma once

#include <condition_variable>
#include <mutex>

#include "engine/base/clock.h"

// g++ ignores these; clang checks them with -Wthread-safety.
#if defined(__clang__)
#define TRIBUTARY_ATTRIBUTE(x) __attribute__((x))
#else
#define TRIBUTARY_ATTRIBUTE(x)
#endif
#define TRIBUTARY_GUARDED_BY(x) TRIBUTARY_ATTRIBUTE(guarded_by(x))
#define TRIBUTARY_REQUIRES(...) TRIBUTARY_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TRIBUTARY_EXCLUDES(...) TRIBUTARY_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace tributary {

// std types and not absl::Mutex: the distribution's Abseil is not instrumented, so TSan would report races that are
// none.
class TRIBUTARY_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() TRIBUTARY_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() TRIBUTARY_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class TRIBUTARY_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TRIBUTARY_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() TRIBUTARY_ATTRIBUTE(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may end for no reason: call them in a loop over the condition, which the analysis can then see under its lock.
class CondVar {
 public:
  void Wait(Mutex& mutex) TRIBUTARY_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();  // the caller goes on holding it
  }
  // False: `wake_at` has passed.
  bool WaitUntil(Mutex& mutex, TimePoint wake_at) TRIBUTARY_REQUIRES(mutex) {
    if (wake_at == kNoDeadline) {
      Wait(mutex);
      return true;
    }
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, wake_at) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tributary
