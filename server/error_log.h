// The log line for calls that failed by the server's own fault, limited per second.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "server/rpc_observer.h"

namespace tributary {

// Who calls it: the reactors, for INTERNAL only: what clients do wrong is counted in metrics, not logged.
// Invariants: at most `max_per_second` lines in any second of the clock; the next second's first line says how many
// were
//   left out. Lines hold no input: statuses of device and model faults never quote it.
// Thread-safety: all methods from any thread.
class ErrorLog {
 public:
  using Sink = std::function<void(const std::string& line)>;
  ErrorLog(const Clock* clock, size_t max_per_second, Sink sink);
  void Report(RpcMethod method, const absl::Status& status);

 private:
  const Clock* const clock_;
  const size_t max_per_second_;
  const Sink sink_;
  Mutex mutex_;
  TimePoint second_begin_ TRIBUTARY_GUARDED_BY(mutex_);
  size_t in_second_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
  size_t left_out_ TRIBUTARY_GUARDED_BY(mutex_) = 0;
};

}  // namespace tributary
