// What the operating system says about this process, under the names every Prometheus dashboard knows; and the build.
#pragma once

#include <string>
#include <vector>

#include "prometheus/collectable.h"

namespace tributary {

struct BuildInfo {
  std::string version;   // of Tributary
  std::string libtorch;  // of the LibTorch loaded; empty where the engine is another
};

// Reads /proc/self at every scrape; a value that cannot be read has no series.
// Thread-safety: Collect from any thread.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  explicit ProcessMetrics(BuildInfo build) : build_(std::move(build)) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const BuildInfo build_;
};

}  // namespace tributary
