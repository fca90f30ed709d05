// Finds the highest rate a server holds within its SLO. Pure: what a probe does is the caller's.
#pragma once

#include <functional>

namespace tributary::bench {

struct RateSearchOptions {
  double start = 10;        // first rate tried, calls per second
  double lowest = 0.1;      // given up below
  double tolerance = 0.05;  // stops when pass and fail are this close, relative
  int max_probes = 20;
};

// Doubles from `start` while `passes(rate)` is true (halves while it is not), then bisects geometrically between the
// last pass and the first fail. Returns the highest rate that passed; 0: none did.
double SearchRate(const RateSearchOptions& options, const std::function<bool(double rate)>& passes);

}  // namespace tributary::bench
