// Cancellation of one request: set by the front end, read by every stage before it spends work.
#pragma once

#include <atomic>

namespace tributary {

// Thread-safety: all methods from any thread. Relaxed order is enough: a stage that sees the flag late only does work
// in vain, and no data travels with it.
class CancelToken {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace tributary
