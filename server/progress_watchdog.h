// Watches that the engine makes progress, and tells health when it does not.
#pragma once

#include <functional>
#include <string>

#include "engine/api/engine.h"
#include "engine/base/mutex.h"
#include "engine/base/worker_thread.h"
#include "server/server_config.h"

namespace tributary {

// Why the engine counts as stuck ("lane 0 has been executing one batch for 31 s, the limit is 30 s"); empty: it does
// not. A lane whose batches all fail is stuck as well.
std::string StuckReason(const EngineSnapshot& snapshot, const HealthOptions& options);

// Looks at the engine's snapshot every check_interval and reports changes; the first state is "making progress".
// Thread-safety: `on_change` runs on the watchdog's own thread ("trib-watchdog").
// Ownership: borrows the engine; the destructor ends the thread.
class ProgressWatchdog {
 public:
  // `reason`: empty when it is well again.
  using OnChange = std::function<void(bool serving, const std::string& reason)>;
  ProgressWatchdog(const Engine* engine, const HealthOptions& options, OnChange on_change);
  ~ProgressWatchdog();

 private:
  void Loop();

  const Engine* const engine_;
  const HealthOptions options_;
  const OnChange on_change_;
  Mutex mutex_;
  CondVar stop_requested_;
  bool stop_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  WorkerThread thread_;  // last: it uses the others
};

}  // namespace tributary
