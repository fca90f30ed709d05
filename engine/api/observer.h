// Events the engine reports. It knows no metrics library and does not log: server/prometheus_observer turns these into
// metrics and logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/api/types.h"

namespace tributary {

// Why a call was refused at the door.
enum class RejectReason : uint8_t { kItems, kBytes, kModalityItems, kDraining };
inline constexpr size_t kRejectReasonCount = 4;

// Why an item was given up before it cost compute. kTooLate: it would have missed its deadline.
enum class DropReason : uint8_t { kExpired, kTooLate, kCancelled, kShutdown };
inline constexpr size_t kDropReasonCount = 4;

// What a lane was waiting for between two executions.
//   kNoWork     nothing of this engine was in flight
//   kPreparing  items were in flight, all still being tokenised or decoded
//   kScheduling items were queued, no batch had reached the lane
//   kStaging    the lane held a batch: packing, copy in
enum class IdleCause : uint8_t { kNoWork, kPreparing, kScheduling, kStaging };
inline constexpr size_t kIdleCauseCount = 4;

struct BatchEvent {
  size_t lane = 0;
  Modality modality = Modality::kText;
  size_t items = 0;
  uint64_t useful_units = 0;    // tokens or pixels of the items
  uint64_t computed_units = 0;  // what the arithmetic ran over; >= useful_units; the difference is padding
  Duration device_time{0};      // execution start -> end
  absl::Status status;
};

struct ItemEvent {
  Modality modality = Modality::kText;
  absl::StatusCode code = absl::StatusCode::kOk;
  StageTimes times;
};

// Called from engine threads, hot: implementations must not block, log or throw; counters only.
// Thread-safety: every method from any thread at once.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnAdmitted(RequestKind /*kind*/, size_t /*items*/, size_t /*bytes*/) {}
  virtual void OnRejected(RequestKind /*kind*/, RejectReason /*reason*/) {}
  virtual void OnDropped(Modality /*modality*/, DropReason /*reason*/) {}
  virtual void OnBatch(const BatchEvent& /*event*/) {}
  virtual void OnItem(const ItemEvent& /*event*/) {}
  // A non-finite or zero-norm vector was refused.
  virtual void OnBadVector(Modality /*modality*/) {}
  // An item whose vector was refused has run again in fp32. `good`: with a vector that is given out.
  virtual void OnRetried(Modality /*modality*/, bool /*good*/) {}
};

std::string_view RejectReasonName(RejectReason reason);
std::string_view DropReasonName(DropReason reason);
std::string_view IdleCauseName(IdleCause cause);

}  // namespace tributary
