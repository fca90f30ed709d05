#include "engine/lane/lane_set.h"

#include <utility>

namespace tributary {

absl::StatusOr<std::unique_ptr<LaneSet>> LaneSet::Create(const std::vector<LaneGroup>& groups, const Clock* clock,
                                                         Observer* observer) {
  std::unique_ptr<LaneSet> set(new LaneSet);
  for (size_t device = 0; device < groups.size(); ++device) {
    const LaneGroup& group = groups[device];
    for (size_t i = 0; i < group.lane_count; ++i) {
      absl::StatusOr<std::unique_ptr<Lane>> lane = Lane::Create({.index = set->lanes_.size(),
                                                                 .slots = group.slots,
                                                                 .slot_size = group.slot_size,
                                                                 .device = group.device,
                                                                 .clock = clock,
                                                                 .observer = observer});
      if (!lane.ok()) return lane.status();
      set->lanes_.push_back(*std::move(lane));
      set->device_of_.push_back(device);
    }
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
