// How a run went over time, in memory that does not grow with it: what the report's charts show.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/client/run_summary.h"

namespace tributary::bench {

// Most bins of a run. More than a chart has room for; with a latency histogram each they take 10 MB.
inline constexpr size_t kTimelineBins = 600;

// Bins of equal width from second 0 on. When a time lies beyond the last of `max_bins`, neighbours are merged and the
// width doubles, as often as it takes. Bin: default-constructible, with Merge(const Bin& later).
// Thread-safety: none.
template <typename Bin>
class BoundedSeries {
 public:
  explicit BoundedSeries(size_t max_bins = kTimelineBins, double width_seconds = 1)
      : max_bins_(max_bins), width_seconds_(width_seconds) {
    bins_.reserve(max_bins_);
  }

  // The bin of that time, valid until the next call; times before 0 are in the first one.
  Bin& At(double seconds) {
    seconds = std::max(0.0, seconds);
    while (seconds >= width_seconds_ * static_cast<double>(max_bins_)) Halve();
    const auto index = static_cast<size_t>(seconds / width_seconds_);
    if (index >= bins_.size()) bins_.resize(index + 1);
    return bins_[index];
  }

  const std::vector<Bin>& bins() const { return bins_; }
  double width_seconds() const { return width_seconds_; }

 private:
  void Halve() {
    width_seconds_ *= 2;
    for (size_t i = 0; 2 * i < bins_.size(); ++i) {
      if (i > 0) bins_[i] = std::move(bins_[2 * i]);
      if (2 * i + 1 < bins_.size()) bins_[i].Merge(bins_[2 * i + 1]);
    }
    bins_.resize((bins_.size() + 1) / 2);
  }

  const size_t max_bins_;
  double width_seconds_;
  std::vector<Bin> bins_;
};

// Calls as they were meant to be sent, and as their answers came.
struct LoadBin {
  KindCounts answered;     // by the time of the answer
  uint64_t scheduled = 0;  // by the intended send time
  uint64_t missed = 0;     // of those, not sent

  void Merge(const LoadBin& later);
};

// `elapsed_seconds`: the run's, where its last bin ends. A last bin of under half a width belongs to the one before it.
// Columns: scheduled_calls, answered_calls, missed_calls, inputs, goodput, errors (inputs; all of them per second),
// p50_ms, p95_ms, p99_ms, max_ms (NaN: no latency).
Timeline LoadTimeline(BoundedSeries<LoadBin> series, double elapsed_seconds);

// The server's metrics in the course of a run.
// Thread-safety: none.
class ServerSeries {
 public:
  explicit ServerSeries(size_t max_bins = kTimelineBins) : bins_(max_bins) {}

  // A page of samples (ParseMetrics) read at `seconds`, rising. What counters grew by since the page before belongs to
  // the middle between both, so that the first page, and one before second 0, only begins. Where a counter has fallen,
  // the server was started anew, and it counts from 0.
  void Add(double seconds, const std::map<std::string, double>& samples);
  void AddFailure() { ++failed_samples_; }

  // Columns, MODALITY being text, image or fusion: batch_items/MODALITY (mean of the batches ended),
  // padding_ratio/MODALITY (share of the units computed), lane_busy_ratio/MODALITY and lane_idle_ratio/CAUSE (shares of
  // the time of all lanes; together 1), queue_depth_items/MODALITY, queue_depth_items/preparation and
  // gpu_utilization_ratio/GPU (means of the samples). NaN where nothing was measured, no batch ended.
  Timeline Take() const;

 private:
  struct Gauge {
    double sum = 0;
    uint64_t samples = 0;
  };
  struct Bin {
    std::map<std::string, double> counters;  // growth
    std::map<std::string, Gauge> gauges;

    void Merge(const Bin& later);
  };

  BoundedSeries<Bin> bins_;
  std::map<std::string, double> last_;  // counters of the page before
  double last_seconds_ = 0;
  uint64_t samples_ = 0;
  uint64_t failed_samples_ = 0;
};

}  // namespace tributary::bench
