#include "benchmarks/client/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tributary::bench {

// Values below 64 have a bucket each; above, the highest 7 bits choose it.
size_t LatencyHistogram::Bucket(uint64_t micros) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(micros)) - (kSubBits + 1));
  if (shift >= kOctaves) return std::tuple_size_v<decltype(buckets_)> - 1;
  return (static_cast<size_t>(shift) << kSubBits) + (micros >> shift);
}

uint64_t LatencyHistogram::UpperBound(size_t bucket) {
  if (bucket < (size_t{2} << kSubBits)) return bucket;
  const size_t shift = (bucket >> kSubBits) - 1;
  const uint64_t top = (bucket & ((size_t{1} << kSubBits) - 1)) + (size_t{1} << kSubBits);
  return ((top + 1) << shift) - 1;
}

void LatencyHistogram::Add(std::chrono::nanoseconds latency) {
  const auto micros = static_cast<uint64_t>(std::max<int64_t>(0, latency.count() / 1000));
  ++buckets_[Bucket(micros)];
  ++count_;
  max_micros_ = std::max(max_micros_, micros);
  sum_micros_ += static_cast<double>(micros);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_micros_ = std::max(max_micros_, other.max_micros_);
  sum_micros_ += other.sum_micros_;
}

double LatencyHistogram::PercentileMillis(double fraction) const {
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank && seen > 0) return static_cast<double>(std::min(UpperBound(i), max_micros_)) / 1000;
  }
  return kNoValue;
}

}  // namespace tributary::bench
