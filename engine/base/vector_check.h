// The last look at a vector before it is given out. Used by the lane (encoder output) and by the fusion join.
#pragma once

#include <cmath>
#include <vector>

#include "absl/status/status.h"

namespace tributary {

// Scales `vector` to length 1 where `normalise` is set.
// Errors: INTERNAL not finite; INTERNAL length zero, where it is to be normalised.
inline absl::Status CheckAndNormalise(std::vector<float>& vector, bool normalise) {
  // In double: squares of finite floats neither overflow nor vanish, so the sum is finite exactly when all numbers are.
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  if (!std::isfinite(sum)) return absl::InternalError("the model gave a vector that is not finite");
  if (!normalise) return absl::OkStatus();
  if (sum == 0) return absl::InternalError("the model gave a vector of length zero");
  const double scale = 1 / std::sqrt(sum);
  for (float& x : vector) x = static_cast<float>(x * scale);
  return absl::OkStatus();
}

}  // namespace tributary
