// Who is next when several flows of work want the same lanes: weighted shares of device time. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/base/clock.h"

namespace tributary {

// Virtual time per flow (a modality, or an encoder): device time used, divided by the flow's weight. The flow with the
// least is next, so over time device time goes by weight, whatever one batch costs.
// Invariants: what a flow did not use while it had no work is gone: when it comes back it starts at the present
// minimum,
//   and cannot claim lost time from the others. A wrong prediction is made good when its batch is done.
// Source: start-time fair queueing (Goyal, Vin, Cheng 1996), with charges corrected by measurement.
class FairShare {
 public:
  FairShare() = default;
  explicit FairShare(std::vector<double> weights) : weights_(std::move(weights)), virtual_time_(weights_.size(), 0.0) {}

  // A flow of this weight that starts at the present minimum; one that had the same number is forgotten.
  void Begin(size_t flow, double weight) {
    if (virtual_time_.size() <= flow) {
      weights_.resize(flow + 1, 1.0);
      virtual_time_.resize(flow + 1, 0.0);
    }
    weights_[flow] = weight;
    virtual_time_[flow] = present_;
  }
  // The flow had no waiting work and has some now.
  void Activate(size_t flow) {
    if (virtual_time_[flow] < present_) virtual_time_[flow] = present_;
  }
  // A batch of the flow goes to a lane.
  void Charge(size_t flow, Duration predicted) {
    present_ = virtual_time_[flow];
    virtual_time_[flow] += ToSeconds(predicted) / weights_[flow];
  }
  // It came back: what it really took replaces the prediction.
  void Correct(size_t flow, Duration predicted, Duration measured) {
    virtual_time_[flow] += ToSeconds(measured - predicted) / weights_[flow];
  }
  double VirtualTime(size_t flow) const { return virtual_time_[flow]; }

 private:
  std::vector<double> weights_;
  std::vector<double> virtual_time_;  // seconds
  double present_ = 0;                // virtual time of the flow that was served last, at that moment
};

}  // namespace tributary
