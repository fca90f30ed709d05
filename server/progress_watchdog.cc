#include "server/progress_watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// An input that a program cannot stand fails its own batches; so many of a lane, none of them good, are a broken device
// (a CUDA error stays for the life of the process).
constexpr size_t kMaxFailedBatches = 16;

}  // namespace

std::string StuckReason(const EngineSnapshot& snapshot, const HealthOptions& options) {
  for (size_t lane = 0; lane < snapshot.lanes.size(); ++lane) {
    const Duration running = snapshot.lanes[lane].running_for;
    if (running > options.max_batch_time) {
      return absl::StrCat("lane ", lane, " (", snapshot.lanes[lane].device, ") has been executing one batch for ",
                          ToSeconds(running), " s, the limit is ", ToSeconds(options.max_batch_time), " s");
    }
    const size_t failed = snapshot.lanes[lane].consecutive_failed_batches;
    if (failed >= kMaxFailedBatches) {
      return absl::StrCat("the last ", failed, " batches of lane ", lane, " (", snapshot.lanes[lane].device,
                          ") have all failed");
    }
  }
  // A long queue alone is overload: its items may be old while batch after batch is done.
  Duration since_batch = Duration::max();
  for (const LaneSnapshot& lane : snapshot.lanes) since_batch = std::min(since_batch, lane.since_batch);
  if (since_batch <= options.max_queue_age) return "";
  for (const Modality modality : kAllModalities) {
    const Duration age = snapshot.queues[static_cast<size_t>(modality)].oldest_age;
    if (age > options.max_queue_age) {
      return absl::StrCat("the oldest waiting ", std::string(ModalityName(modality)), " item is ", ToSeconds(age),
                          " s old and no batch was done for ", ToSeconds(since_batch), " s, the limit is ",
                          ToSeconds(options.max_queue_age), " s");
    }
  }
  return "";
}

ProgressWatchdog::ProgressWatchdog(const Engine* engine, const HealthOptions& options, OnChange on_change)
    : engine_(engine),
      options_(options),
      on_change_(std::move(on_change)),
      thread_("trib-watchdog", [this] { Loop(); }) {}

ProgressWatchdog::~ProgressWatchdog() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  stop_requested_.NotifyAll();
  thread_.Join();
}

void ProgressWatchdog::Loop() {
  bool serving = true;
  while (true) {
    const std::string reason = StuckReason(engine_->Snapshot(), options_);
    if (reason.empty() != serving) {
      serving = reason.empty();
      on_change_(serving, reason);
    }
    const TimePoint next = std::chrono::steady_clock::now() + options_.check_interval;
    MutexLock lock(mutex_);
    while (!stop_ && stop_requested_.WaitUntil(mutex_, next)) {
    }
    if (stop_) return;
  }
}

}  // namespace tributary
