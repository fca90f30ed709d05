// All lanes of one device, as the scheduler's executor.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/lane/lane.h"
#include "engine/schedule/batch_executor.h"

namespace tributary {

// Called by the scheduler; every lane carries every program (one device).
// Thread-safety: as BatchExecutor; Snapshot from any thread.
// Ownership: device, programs, clock, observer and listener outlive it. The destructor runs everything handed over.
class LaneSet final : public BatchExecutor {
 public:
  // `programs[i]`: the encoder with EncoderIndex i; not empty. `lane_count`, `slots` >= 1.
  // Errors: what the device answers to allocation and stream creation.
  static absl::StatusOr<std::unique_ptr<LaneSet>> Create(Device* device,
                                                         const std::vector<const BatchProgram*>& programs,
                                                         size_t lane_count, size_t slots, const Clock* clock,
                                                         Observer* observer);

  void SetListener(BatchListener* listener) override;
  size_t LaneCount() const override { return lanes_.size(); }
  bool Serves(size_t /*lane*/, EncoderIndex /*encoder*/) const override { return true; }
  size_t FreeSlots(size_t lane) const override { return lanes_[lane]->FreeSlots(); }
  size_t InFlight(size_t lane) const override { return lanes_[lane]->InFlight(); }
  void Execute(size_t lane, Batch batch) override { lanes_[lane]->Execute(std::move(batch)); }

  // See Lane::Snapshot.
  std::vector<LaneSnapshot> Snapshot(IdleCause waiting_for, TimePoint now) const;

 private:
  LaneSet() = default;

  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace tributary
