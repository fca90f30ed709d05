#include "server/admin_worker.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

absl::Status Draining() { return absl::UnavailableError("the server is draining"); }

}  // namespace

AdminWorker::AdminWorker() : waiting_(kMaxWaiting), thread_("trib-admin", [this] { Loop(); }) {}

AdminWorker::~AdminWorker() { Close(); }

absl::Status AdminWorker::Submit(Operation operation) {
  {
    MutexLock lock(mutex_);
    if (closed_) return Draining();
  }
  if (waiting_.TryPush(std::move(operation))) return absl::OkStatus();
  MutexLock lock(mutex_);
  if (closed_) return Draining();
  return absl::ResourceExhaustedError(
      absl::StrCat(kMaxWaiting, " loads and unloads wait already, which is the limit: try again later"));
}

void AdminWorker::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  waiting_.Close();
  while (std::optional<Operation> operation = waiting_.TryPop()) std::move (*operation)(Draining());
}

bool AdminWorker::WaitUntilIdle(TimePoint wake_at) {
  MutexLock lock(mutex_);
  while (running_) {
    if (!idle_.WaitUntil(mutex_, wake_at)) return !running_;
  }
  return true;
}

void AdminWorker::Loop() {
  while (std::optional<Operation> operation = waiting_.Pop()) {
    absl::Status refusal;
    {
      MutexLock lock(mutex_);
      if (closed_) refusal = Draining();
      running_ = true;
    }
    std::move (*operation)(refusal);
    operation.reset();
    MutexLock lock(mutex_);
    running_ = false;
    idle_.NotifyAll();
  }
}

}  // namespace tributary
