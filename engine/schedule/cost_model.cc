#include "engine/schedule/cost_model.h"

#include <algorithm>
#include <cmath>

namespace tributary {

void CostModel::Observe(uint64_t useful_units, Duration device_time) {
  if (device_time <= Duration::zero()) return;
  const uint64_t units = std::max<uint64_t>(padding_(useful_units), 1);
  const auto u = static_cast<double>(units);
  double y = ToSeconds(device_time);
  if (observed_ > 0) {
    const double factor = y / Seconds(units);
    const int side = factor > kOutlierFactor ? 1 : factor < 1 / kOutlierFactor ? -1 : 0;
    if (side == 0 || side * streak_ < 0) streak_ = 0;
    if (side != 0) {
      const bool milder = side > 0 ? factor < streak_factor_ : factor > streak_factor_;
      if (streak_ == 0 || milder) streak_factor_ = factor;
      streak_ += side;
      if (std::abs(streak_) >= kChangeAfter) {
        Scale(streak_factor_);
        streak_ = 0;
      }
    }
    const double expected = Seconds(units);
    y = std::clamp(y, expected / kOutlierFactor, expected * kOutlierFactor);
  }
  ++observed_;
  const double weight = 1 / (u * u);
  w_ = w_ * kForget + weight;
  wu_ = wu_ * kForget + weight * u;
  wuu_ = wuu_ * kForget + 1;
  wy_ = wy_ * kForget + weight * y;
  wuy_ = wuy_ * kForget + weight * u * y;
  Fit();
}

void CostModel::Scale(double factor) {
  wy_ *= factor;
  wuy_ *= factor;
  Fit();
}

void CostModel::Fit() {
  // Batches of one size do not tell the fixed part from the rest: then all of it counts as per unit, which is too
  // little for smaller batches, and so gives no work up that could be saved.
  const double determinant = w_ * wuu_ - wu_ * wu_;
  const bool one_size = determinant < 1e-6 * w_ * wuu_;
  fixed_seconds_ = one_size ? 0 : std::max(0.0, (wy_ * wuu_ - wuy_ * wu_) / determinant);
  per_unit_seconds_ = (wuy_ - fixed_seconds_ * wu_) / wuu_;
  if (fixed_seconds_ > 0 && per_unit_seconds_ < 0) {
    per_unit_seconds_ = 0;
    fixed_seconds_ = wy_ / w_;
  }
}

}  // namespace tributary
