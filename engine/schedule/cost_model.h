// What a batch of one encoder costs in device time, learnt from the batches that ran. Pure: no threads, no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/clock.h"

namespace tributary {

// seconds = fixed + per_unit * computed units, both >= 0: least squares over what ran, forgetting old batches
// exponentially. Errors are weighed per unit, so that small batches count as much as large ones.
// Invariants: a single outlier moves a trained model at most as a batch of half or twice the predicted time would. When
// three of its
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
  Duration Predict(uint64_t useful_units) const { return FromSeconds(line_.Seconds(padding_(useful_units))); }
  // Likewise the least that it may take, by what was observed: batches of one size do not tell whether a larger one
  // costs more, or a smaller one less.
  Duration PredictAtLeast(uint64_t useful_units) const {
    return FromSeconds(line_.LeastSeconds(padding_(useful_units)));
  }
  // Likewise, where nothing would be padded.
  Duration PredictUnpadded(uint64_t units) const { return FromSeconds(line_.Seconds(units)); }
  // Whether enough has been observed to give up work because of a prediction.
  bool trained() const { return observed_ >= kTrainedAfter; }
  // Whether the last batch took less than half of what was predicted: the model may be too dear, and the next batches
  // will show it.
  bool overestimates() const { return streak_ < 0; }
  // A batch ran without error.
  void Observe(uint64_t useful_units, Duration device_time);

 private:
  // The first batches of a fresh encoder make primitives and touch new memory: not the measure for later ones.
  static constexpr size_t kTrainedAfter = 8;
  static constexpr double kForget = 0.9;       // weight of the past per batch: a memory of about ten batches
  static constexpr double kOutlierFactor = 2;  // beyond the spread of one machine's batch times (10-30 %)
  static constexpr int kChangeAfter = 3;

  // Finds out whether costs have changed for good, and if so scales the fit.
  void WatchForChange(uint64_t units, double seconds);

  // A fitted line, and the weighted sums over (units u, seconds y) that it comes from; weight 1/u^2.
  struct Line {
    double w = 0, wu = 0, wuu = 0, wy = 0, wuy = 0;  // of 1/u^2, 1/u, 1, y/u^2, y/u
    double fixed_seconds = 0;
    double per_unit_seconds = 0;
    bool one_size = false;
    double Seconds(uint64_t units) const { return fixed_seconds + per_unit_seconds * static_cast<double>(units); }
    double LeastSeconds(uint64_t units) const { return one_size ? std::min(Seconds(units), wy / w) : Seconds(units); }
    void Solve();
  };

  Padding padding_;
  size_t observed_ = 0;
  Line line_;
  // Batches in a row that were off on one side (sign: slower +, faster -), the mildest of their factors, and the line
  // before them: what they were off from, and free of their traces.
  int streak_ = 0;
  double streak_factor_ = 1;
  Line line_before_streak_;
};

}  // namespace tributary
