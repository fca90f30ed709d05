#include "server/metric_sheet.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace tributary {

void AtomicHistogram::Observe(uint64_t value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

prometheus::ClientMetric::Histogram AtomicHistogram::Collect() const {
  prometheus::ClientMetric::Histogram collected;
  uint64_t cumulative = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    cumulative += counts_[i].load(std::memory_order_relaxed);
    const bool last = i == bounds_.size();
    prometheus::ClientMetric::Bucket bucket;
    bucket.cumulative_count = cumulative;
    bucket.upper_bound = last ? std::numeric_limits<double>::infinity() : static_cast<double>(bounds_[i]) * scale_;
    collected.bucket.push_back(bucket);
  }
  collected.sample_count = cumulative;  // by construction what +Inf says, as the format asks
  collected.sample_sum = static_cast<double>(sum_.load(std::memory_order_relaxed)) * scale_;
  return collected;
}

prometheus::MetricFamily& MetricSheet::Family(MetricId id) {
  auto [entry, is_new] = families_.try_emplace(id);
  if (is_new) {
    const MetricRow& row = RowOf(id);
    entry->second.name = row.name;
    entry->second.help = row.help;
    switch (row.kind) {
      case MetricKind::kCounter:
        entry->second.type = prometheus::MetricType::Counter;
        break;
      case MetricKind::kGauge:
        entry->second.type = prometheus::MetricType::Gauge;
        break;
      case MetricKind::kHistogram:
        entry->second.type = prometheus::MetricType::Histogram;
        break;
    }
  }
  return entry->second;
}

prometheus::ClientMetric& MetricSheet::AddSeries(MetricId id, std::vector<std::string> label_values) {
  const MetricRow& row = RowOf(id);
  assert(label_values.size() == row.labels.size());
  prometheus::ClientMetric& series = Family(id).metric.emplace_back();
  for (size_t i = 0; i < row.labels.size(); ++i) {
    prometheus::ClientMetric::Label label;
    label.name = row.labels[i];
    label.value = std::move(label_values[i]);
    series.label.push_back(std::move(label));
  }
  return series;
}

void MetricSheet::Set(MetricId id, std::vector<std::string> label_values, double value) {
  assert(RowOf(id).kind != MetricKind::kHistogram);
  prometheus::ClientMetric& series = AddSeries(id, std::move(label_values));
  if (RowOf(id).kind == MetricKind::kCounter) {
    series.counter.value = value;
  } else {
    series.gauge.value = value;
  }
}

void MetricSheet::Set(MetricId id, std::vector<std::string> label_values, const AtomicHistogram& histogram) {
  assert(RowOf(id).kind == MetricKind::kHistogram);
  AddSeries(id, std::move(label_values)).histogram = histogram.Collect();
}

std::vector<prometheus::MetricFamily> MetricSheet::Take() {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(families_.size());
  for (auto& [id, family] : families_) families.push_back(std::move(family));
  families_.clear();
  return families;
}

}  // namespace tributary
