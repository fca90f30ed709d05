#include "engine/lane/lane_set.h"

#include <utility>

namespace tributary {

absl::StatusOr<std::unique_ptr<LaneSet>> LaneSet::Create(Device* device,
                                                         const std::vector<const BatchProgram*>& programs,
                                                         size_t lane_count, size_t slots, const Clock* clock,
                                                         Observer* observer) {
  std::unique_ptr<LaneSet> set(new LaneSet);
  for (size_t i = 0; i < lane_count; ++i) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = Lane::Create(
        {.index = i, .slots = slots, .device = device, .programs = programs, .clock = clock, .observer = observer});
    if (!lane.ok()) return lane.status();
    set->lanes_.push_back(*std::move(lane));
  }
  return set;
}

void LaneSet::SetListener(BatchListener* listener) {
  for (const auto& lane : lanes_) lane->SetListener(listener);
}

std::vector<LaneSnapshot> LaneSet::Snapshot(IdleCause waiting_for, TimePoint now) const {
  std::vector<LaneSnapshot> snapshots;
  snapshots.reserve(lanes_.size());
  for (const auto& lane : lanes_) snapshots.push_back(lane->Snapshot(waiting_for, now));
  return snapshots;
}

}  // namespace tributary
