// Giving an item up before it costs anything more: which reason, which code. Used by preparation, scheduler and lanes.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "engine/api/observer.h"
#include "engine/queue/work_item.h"

namespace tributary {

// Whether nobody waits for this item any more.
inline std::optional<DropReason> DeadReason(const WorkItem& item, TimePoint now) {
  if (item.cancelled()) return DropReason::kCancelled;
  if (item.expired(now)) return DropReason::kExpired;
  return std::nullopt;
}

inline absl::Status DropStatus(DropReason reason) {
  switch (reason) {
    case DropReason::kExpired:
      return absl::DeadlineExceededError("the deadline passed before it ran");
    case DropReason::kTooLate:
      return absl::DeadlineExceededError("it could not have made its deadline");
    case DropReason::kCancelled:
      return absl::CancelledError("cancelled before it ran");
    case DropReason::kShutdown:
      return absl::UnavailableError("the server is shutting down");
  }
  return absl::InternalError("unknown reason to drop an item");
}

// Completes the item with the reason's code and counts it.
inline void DropItem(WorkItem& item, DropReason reason, Observer* observer) {
  observer->OnDropped(item.modality, reason);
  item.Fail(DropStatus(reason));
}

}  // namespace tributary
