// What the lanes are doing, by prediction: the scheduler's view of how long each is still busy.
#pragma once

#include <deque>
#include <vector>

#include "engine/schedule/batch.h"

namespace tributary {

// Batches of a lane run one after the other, in the order they were handed over.
// Thread-safety: none; scheduler thread.
class LaneLoad {
 public:
  explicit LaneLoad(size_t lanes) : lanes_(lanes) {}

  void Started(size_t lane, uint64_t sequence, Duration predicted, TimePoint now);
  void Done(size_t lane, uint64_t sequence, TimePoint now);

  // Predicted time until the lane has nothing left to do; 0: idle, over its prediction, or nothing is known yet.
  Duration Remaining(size_t lane, TimePoint now) const;
  // Predicted time of all the lane holds, from its start.
  Duration Predicted(size_t lane) const;

 private:
  struct InFlight {
    uint64_t sequence = 0;
    Duration predicted{0};
  };
  struct Lane {
    std::deque<InFlight> batches;
    TimePoint front_since;  // when the first of them is thought to have started
  };
  std::vector<Lane> lanes_;
};

}  // namespace tributary
