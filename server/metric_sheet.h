// What one scrape of a collector is written on: series of the metric table, turned into prometheus-cpp's families.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "prometheus/metric_family.h"
#include "server/metric_table.h"

namespace tributary {

// A histogram that hot threads fill without a lock (prometheus-cpp's own takes a mutex for every observation).
// Values and bounds are whole numbers (nanoseconds, items); `scale` turns them into the metric's unit.
// Thread-safety: all methods from any thread. A scrape may see an observation in a bucket and not yet in the sum.
class AtomicHistogram {
 public:
  // `bounds`: upper bounds (inclusive), rising; must outlive the histogram. At most kMaxBounds.
  AtomicHistogram(std::span<const uint64_t> bounds, double scale) : bounds_(bounds), scale_(scale) {}
  void Observe(uint64_t value);
  prometheus::ClientMetric::Histogram Collect() const;

  static constexpr size_t kMaxBounds = 20;

 private:
  const std::span<const uint64_t> bounds_;
  const double scale_;
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_{};
  std::atomic<uint64_t> sum_{0};
};

// Thread-safety: none; lives within one Collect().
class MetricSheet {
 public:
  // The metric's HELP and TYPE appear even if it has no series.
  void Declare(MetricId id) { Family(id); }
  // `label_values`: as many as the table names labels, in its order.
  void Set(MetricId id, std::vector<std::string> label_values, double value);
  void Set(MetricId id, std::vector<std::string> label_values, const AtomicHistogram& histogram);
  std::vector<prometheus::MetricFamily> Take();

 private:
  prometheus::MetricFamily& Family(MetricId id);
  prometheus::ClientMetric& AddSeries(MetricId id, std::vector<std::string> label_values);

  std::map<MetricId, prometheus::MetricFamily> families_;
};

}  // namespace tributary
