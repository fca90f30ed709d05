// What the scheduler sees of the lanes. Implemented by engine/lane/lane_set; tests use a puppet that runs batches by
// hand.
#pragma once

#include <cstddef>

#include "engine/schedule/batch.h"

namespace tributary {

// Told by lanes, on their threads. Must not block.
class BatchListener {
 public:
  virtual ~BatchListener() = default;
  // A batch left `outcome.lane`; its slot is free again. Exactly once per executed batch.
  virtual void OnBatchDone(const BatchOutcome& outcome) = 0;
};

// Invariants: Execute is called only while FreeSlots(lane) > 0; every executed batch ends in OnBatchDone after all of
//   its items were completed.
// Thread-safety: FreeSlots and Execute from the scheduler thread only; SetListener before the first Execute.
class BatchExecutor {
 public:
  virtual ~BatchExecutor() = default;
  virtual void SetListener(BatchListener* listener) = 0;
  virtual size_t LaneCount() const = 0;
  // Lanes of one device are alike: they carry the same encoders, at the same cost. Numbered from 0; never changes.
  virtual size_t DeviceOf(size_t lane) const = 0;
  // How many more batches the lane takes now. A lane that is executing takes more in advance, as many as it has staging
  // slots left, so that staging and copy in overlap compute.
  virtual size_t FreeSlots(size_t lane) const = 0;
  // Batches handed over and not yet done; 0: the lane is idle.
  virtual size_t InFlight(size_t lane) const = 0;
  // Takes the batch, whose program is one for the lane's device; returns without waiting for it.
  virtual void Execute(size_t lane, Batch batch) = 0;
};

}  // namespace tributary
