// Lets one thread sleep until others have something for it. Used by the scheduler and the lanes.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"

namespace tributary {

// An event count for one sleeper. The sleeper: `auto ticket = parker.Ticket(); if (nothing to do) parker.Park(ticket)`.
// What a notifier did before Notify() is visible to the sleeper after the Park() it ends, or after the next Ticket().
// Invariant: a Notify() after Ticket() makes Park(ticket) return at once: no wake-up is lost.
// Thread-safety: Notify from any thread; Ticket and Park from the one sleeper.
class Parker {
 public:
  uint64_t Ticket() const { return epoch_.load(std::memory_order_seq_cst); }
  // Sleeps until a Notify() newer than `ticket`, or until `wake_at` of the steady clock.
  void Park(uint64_t ticket, TimePoint wake_at = kNoDeadline);
  // Cheap when nobody sleeps: one atomic add and one load.
  void Notify();

 private:
  std::atomic<uint64_t> epoch_{0};
  std::atomic<bool> sleeping_{false};
  Mutex mutex_;  // guards nothing but the sleep
  CondVar wake_;
};

}  // namespace tributary
