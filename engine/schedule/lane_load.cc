#include "engine/schedule/lane_load.h"

#include <algorithm>

namespace tributary {

void LaneLoad::Started(size_t lane, uint64_t sequence, Duration predicted, TimePoint now) {
  if (lanes_[lane].batches.empty()) lanes_[lane].front_since = now;
  lanes_[lane].batches.push_back({sequence, predicted});
}

void LaneLoad::Done(size_t lane, uint64_t sequence, TimePoint now) {
  auto& batches = lanes_[lane].batches;
  const auto done =
      std::find_if(batches.begin(), batches.end(), [&](const InFlight& b) { return b.sequence == sequence; });
  if (done == batches.end()) return;
  if (done == batches.begin()) lanes_[lane].front_since = now;
  batches.erase(done);
}

Duration LaneLoad::Remaining(size_t lane, TimePoint now) const {
  const auto& batches = lanes_[lane].batches;
  if (batches.empty()) return Duration::zero();
  Duration later{0};
  for (size_t i = 1; i < batches.size(); ++i) later += batches[i].predicted;
  return later + std::max(Duration::zero(), batches.front().predicted - (now - lanes_[lane].front_since));
}

Duration LaneLoad::Predicted(size_t lane) const {
  Duration all{0};
  for (const InFlight& batch : lanes_[lane].batches) all += batch.predicted;
  return all;
}

}  // namespace tributary
