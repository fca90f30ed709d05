// The engine's gauges, read from its snapshot at every scrape: queues, lanes, what is in flight, the models.
#pragma once

#include <vector>

#include "engine/api/engine.h"
#include "prometheus/collectable.h"

namespace tributary {

// Thread-safety: Collect from any thread.
// Ownership: borrows the engine, which must outlive the metrics server that scrapes this. Null: no engine yet; what
// needs
//   none is at 0, the rest has no series.
class EngineMetrics final : public prometheus::Collectable {
 public:
  explicit EngineMetrics(const Engine* engine) : engine_(engine) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Engine* const engine_;
};

}  // namespace tributary
