#include "server/error_log.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/grpc_status.h"

namespace tributary {

ErrorLog::ErrorLog(const Clock* clock, size_t max_per_second, Sink sink)
    : clock_(clock), max_per_second_(max_per_second), sink_(std::move(sink)) {}

void ErrorLog::Report(RpcMethod method, const absl::Status& status) {
  size_t left_out = 0;
  {
    const TimePoint now = clock_->Now();
    MutexLock lock(mutex_);
    if (now - second_begin_ >= std::chrono::seconds(1)) {
      second_begin_ = now;
      in_second_ = 0;
    }
    if (in_second_ >= max_per_second_) {
      ++left_out_;
      return;
    }
    ++in_second_;
    left_out = std::exchange(left_out_, 0);
  }
  const std::string_view message(status.message().data(), status.message().size());
  std::string line = absl::StrCat(std::string(RpcMethodName(method)), " failed: ", BoundedMessage(message));
  if (left_out > 0) absl::StrAppend(&line, " (", left_out, " more were not logged)");
  sink_(line);
}

}  // namespace tributary
