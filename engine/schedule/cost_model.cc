#include "engine/schedule/cost_model.h"

#include <algorithm>
#include <cmath>

namespace tributary {

void CostModel::Observe(uint64_t useful_units, Duration device_time) {
  if (device_time <= Duration::zero()) return;
  const uint64_t units = std::max<uint64_t>(padding_(useful_units), 1);
  const auto u = static_cast<double>(units);
  double y = ToSeconds(device_time);
  if (trained()) {
    WatchForChange(units, y);
    const double expected = line_.Seconds(units);
    y = std::clamp(y, expected / kOutlierFactor, expected * kOutlierFactor);
  }
  ++observed_;
  const double weight = 1 / (u * u);
  line_.w = line_.w * kForget + weight;
  line_.wu = line_.wu * kForget + weight * u;
  line_.wuu = line_.wuu * kForget + 1;
  line_.wy = line_.wy * kForget + weight * y;
  line_.wuy = line_.wuy * kForget + weight * u * y;
  line_.Solve();
}

void CostModel::WatchForChange(uint64_t units, double seconds) {
  if (streak_ == 0) line_before_streak_ = line_;
  const double factor = seconds / line_before_streak_.Seconds(units);
  const int side = factor > kOutlierFactor ? 1 : factor < 1 / kOutlierFactor ? -1 : 0;
  if (side * streak_ <= 0) streak_ = 0;
  if (side == 0) return;
  const bool milder = side > 0 ? factor < streak_factor_ : factor > streak_factor_;
  if (streak_ == 0 || milder) streak_factor_ = factor;
  streak_ += side;
  if (std::abs(streak_) < kChangeAfter) return;
  line_ = line_before_streak_;
  line_.wy *= streak_factor_;
  line_.wuy *= streak_factor_;
  line_.Solve();
  streak_ = 0;
}

void CostModel::Line::Solve() {
  // Batches of one size do not tell the fixed part from the rest: then all of it counts as per unit, too little for
  // smaller batches and too much for larger ones, which keeps those in time.
  const double determinant = w * wuu - wu * wu;
  one_size = determinant < 1e-6 * w * wuu;
  fixed_seconds = one_size ? 0 : std::max(0.0, (wy * wuu - wuy * wu) / determinant);
  per_unit_seconds = (wuy - fixed_seconds * wu) / wuu;
  if (per_unit_seconds < 0) {
    per_unit_seconds = 0;
    fixed_seconds = wy / w;
  }
}

}  // namespace tributary
