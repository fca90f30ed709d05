// What a batch of one encoder costs in device time, learnt from the batches that ran. Pure: no threads, no clock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/clock.h"

namespace tributary {

// seconds = fixed + per_unit * computed units, both >= 0: least squares over what ran, forgetting old batches
// exponentially. Errors are weighed per unit, so that small batches count as much as large ones.
// Invariants: a single outlier moves the model at most as a batch of half or twice the predicted time would. When three
//   batches in a row are off by more than a factor of two on the same side, the costs have changed (other clock, other
//   neighbour, end of warm-up): the whole model is scaled to them. So after a tenfold change predictions are within 10
//   % from the fourth batch on, if the batches themselves are that regular.
// Who uses it: one per encoder, on the scheduler thread.
class CostModel {
 public:
  // What a batch of so many useful units is padded to.
  using Padding = uint64_t (*)(uint64_t useful_units);
  static uint64_t NoPadding(uint64_t useful_units) { return useful_units; }

  explicit CostModel(Padding padding = &NoPadding) : padding_(padding) {}

  // Device time of a batch of so many useful units; 0 while nothing was observed.
  Duration Predict(uint64_t useful_units) const { return FromSeconds(Seconds(padding_(useful_units))); }
  // Likewise, where nothing would be padded.
  Duration PredictUnpadded(uint64_t units) const { return FromSeconds(Seconds(units)); }
  // Whether enough has been observed to give up work because of a prediction.
  bool trained() const { return observed_ >= kTrainedAfter; }
  // A batch ran without error.
  void Observe(uint64_t useful_units, Duration device_time);

 private:
  // The first batches of a fresh encoder make primitives and touch new memory: not the measure for later ones.
  static constexpr size_t kTrainedAfter = 8;
  static constexpr double kForget = 0.9;       // weight of the past per batch: a memory of about ten batches
  static constexpr double kOutlierFactor = 2;  // beyond the spread of one machine's batch times (10-30 %)
  static constexpr int kChangeAfter = 3;

  double Seconds(uint64_t computed_units) const {
    return fixed_seconds_ + per_unit_seconds_ * static_cast<double>(computed_units);
  }
  void Scale(double factor);
  void Fit();

  Padding padding_;
  size_t observed_ = 0;
  // Weighted sums over (units u, seconds y) with weight 1/u^2: of 1/u^2, 1/u, 1, y/u^2, y/u.
  double w_ = 0, wu_ = 0, wuu_ = 0, wy_ = 0, wuy_ = 0;
  double fixed_seconds_ = 0;
  double per_unit_seconds_ = 0;
  // Batches in a row that were off on one side (sign: slower +, faster -), and the mildest of their factors.
  int streak_ = 0;
  double streak_factor_ = 1;
};

}  // namespace tributary
