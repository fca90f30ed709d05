// One change at a time to the models that are served, and a way for the engine to go down between two of them.
#pragma once

#include <cstddef>

#include "engine/base/mutex.h"

namespace tributary {

// Not a lock: whoever has the turn may take seconds, and take locks.
// Thread-safety: all methods from any thread; Close once, by the owner.
// Ownership: outlives every call that began before Close() returned.
class ChangeGate {
 public:
  // A call that makes a change: it waits for its turn, and has it until LetNext() or its end.
  class Turn {
   public:
    explicit Turn(ChangeGate* gate) : gate_(gate), has_turn_(gate->Enter()) {}
    ~Turn() {
      if (has_turn_) gate_->LetNext();
      gate_->Leave();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // False: the gate is closed, and no change may be made.
    bool ok() const { return has_turn_; }
    // The change is made; what this call has yet to do does not hold up others, but Close() waits for it.
    void LetNext() {
      gate_->LetNext();
      has_turn_ = false;
    }

   private:
    ChangeGate* const gate_;
    bool has_turn_;
  };

  // No turn begins any more; waits until all calls have left.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
    while (calls_ > 0) changed_.Wait(mutex_);
  }

 private:
  bool Enter() {
    MutexLock lock(mutex_);
    ++calls_;
    while (taken_ && !closed_) changed_.Wait(mutex_);
    if (closed_) return false;
    taken_ = true;
    return true;
  }
  void LetNext() {
    MutexLock lock(mutex_);
    taken_ = false;
    changed_.NotifyAll();
  }
  void Leave() {
    MutexLock lock(mutex_);
    --calls_;
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  bool taken_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  bool closed_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  size_t calls_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
};

}  // namespace tributary
