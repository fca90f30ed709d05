// How near two vectors are.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace tributary {

// Cosine of the angle between vectors of one length. Not a number where one is zero or not finite: compare with
// `!(cosine >= limit)`.
inline double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace tributary
