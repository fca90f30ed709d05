// The lanes of all devices, as the scheduler's executor.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/lane/lane.h"
#include "engine/schedule/batch_executor.h"

namespace tributary {

// The lanes of one device.
struct LaneGroup {
  Device* device = nullptr;
  size_t lane_count = 1;  // >= 1
  size_t slots = 2;       // of each lane; >= 1
  SlotSize slot_size;     // covers every program of the device
};

// Called by the scheduler. Lanes are numbered through all groups, in their order; a group's index is its device's.
// Thread-safety: as BatchExecutor; Snapshot from any thread.
// Ownership: devices, the batches' programs, clock, observer and listener outlive it. The destructor runs everything
//   handed over.
class LaneSet final : public BatchExecutor {
 public:
  // Errors: what a device answers to allocation and stream creation.
  static absl::StatusOr<std::unique_ptr<LaneSet>> Create(const std::vector<LaneGroup>& groups, const Clock* clock,
                                                         Observer* observer);

  void SetListener(BatchListener* listener) override;
  size_t LaneCount() const override { return lanes_.size(); }
  size_t DeviceOf(size_t lane) const override { return device_of_[lane]; }
  size_t FreeSlots(size_t lane) const override { return lanes_[lane]->FreeSlots(); }
  size_t InFlight(size_t lane) const override { return lanes_[lane]->InFlight(); }
  void Execute(size_t lane, Batch batch) override { lanes_[lane]->Execute(std::move(batch)); }

  // Makes room in the lanes of each device (index: as DeviceOf) for batches of this size; what they have room for
  // already stays. Batches handed over later find it; those in flight are not touched. One call at a time, from any
  // thread. Errors: those of a device; then nothing has changed.
  absl::Status Reserve(const std::vector<SlotSize>& by_device);

  // See Lane::Snapshot.
  std::vector<LaneSnapshot> Snapshot(IdleCause waiting_for, TimePoint now) const;

 private:
  LaneSet() = default;

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<size_t> device_of_;     // as lanes_
  std::vector<SlotSize> slot_sizes_;  // of the lanes of each device
};

}  // namespace tributary
