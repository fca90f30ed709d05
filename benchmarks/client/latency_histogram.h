// Latencies of a run in fixed memory: counts in buckets whose width grows with the value.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tributary::bench {

// What stands for a figure nothing was measured for; null in JSON.
inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// 64 buckets per power of two of microseconds: a percentile is at most 1/64 (1.6 %) above the true value. Holds 0 to
// about 19 hours; longer ones count as that. Thread-safety: none.
// Source: G. Tene's HdrHistogram.
class LatencyHistogram {
 public:
  void Add(std::chrono::nanoseconds latency);
  void Merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  // The upper bound of the bucket in which the `fraction` (0..1) smallest values end; never above the largest value.
  // NaN when empty, as mean and maximum are: no latency is not a latency of 0.
  double PercentileMillis(double fraction) const;
  double MeanMillis() const { return count_ == 0 ? kNoValue : sum_micros_ / static_cast<double>(count_) / 1000; }
  double MaxMillis() const { return count_ == 0 ? kNoValue : static_cast<double>(max_micros_) / 1000; }

 private:
  static constexpr int kSubBits = 6;
  static constexpr int kOctaves = 30;

  static size_t Bucket(uint64_t micros);
  static uint64_t UpperBound(size_t bucket);

  std::array<uint64_t, (kOctaves + 1) << kSubBits> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_micros_ = 0;
  double sum_micros_ = 0;
};

}  // namespace tributary::bench
