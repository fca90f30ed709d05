#include "engine/lane/lane_set.h"

#include <algorithm>
#include <utility>

namespace tributary {

absl::StatusOr<std::unique_ptr<LaneSet>> LaneSet::Create(const std::vector<LaneGroup>& groups, const Clock* clock,
                                                         Observer* observer) {
  std::unique_ptr<LaneSet> set(new LaneSet);
  for (size_t device = 0; device < groups.size(); ++device) {
    const LaneGroup& group = groups[device];
    set->slot_sizes_.push_back(group.slot_size);
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

absl::Status LaneSet::Reserve(const std::vector<SlotSize>& by_device) {
  std::vector<SlotSize> sizes = slot_sizes_;
  std::vector<std::vector<SlotMemory>> memory(lanes_.size());  // empty: the lane has room
  for (size_t device = 0; device < sizes.size(); ++device) {
    sizes[device].input_bytes = std::max(sizes[device].input_bytes, by_device[device].input_bytes);
    sizes[device].output_bytes = std::max(sizes[device].output_bytes, by_device[device].output_bytes);
  }
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const size_t device = device_of_[lane];
    if (sizes[device] == slot_sizes_[device]) continue;
    absl::StatusOr<std::vector<SlotMemory>> slots = lanes_[lane]->AllocateSlots(sizes[device]);
    if (!slots.ok()) return slots.status();
    memory[lane] = *std::move(slots);
  }
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!memory[lane].empty()) lanes_[lane]->UseSlots(std::move(memory[lane]));
  }
  slot_sizes_ = std::move(sizes);
  return absl::OkStatus();
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
