#include "engine/base/parker.h"

namespace tributary {

// seq_cst pairs: the sleeper stores sleeping_ and then reads epoch_; the notifier adds to epoch_ and then reads
// sleeping_. In the single order at least one of them sees the other's store, so a wake-up cannot be lost.
void Parker::Park(uint64_t ticket, TimePoint wake_at) {
  MutexLock lock(mutex_);
  sleeping_.store(true, std::memory_order_seq_cst);
  while (epoch_.load(std::memory_order_seq_cst) == ticket) {
    if (!wake_.WaitUntil(mutex_, wake_at)) break;
  }
  sleeping_.store(false, std::memory_order_relaxed);
}

void Parker::Notify() {
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (!sleeping_.load(std::memory_order_seq_cst)) return;
  // Taking the lock makes sure that the sleeper is inside wait, where notify reaches it.
  {
    MutexLock lock(mutex_);
  }
  wake_.NotifyOne();
}

}  // namespace tributary
