#include "benchmarks/client/rate_search.h"

#include <cmath>

namespace tributary::bench {

double SearchRate(const RateSearchOptions& options, const std::function<bool(double)>& passes) {
  double good = 0;
  double bad = 0;
  double rate = options.start;
  for (int probe = 0; probe < options.max_probes && rate >= options.lowest; ++probe) {
    (passes(rate) ? good : bad) = rate;
    if (bad == 0) {
      rate *= 2;
    } else if (good == 0) {
      rate /= 2;
    } else {
      if (bad / good <= 1 + options.tolerance) break;
      rate = std::sqrt(good * bad);
    }
  }
  return good;
}

}  // namespace tributary::bench
