// Bounds the memory of answers that are not sent yet, over all calls together.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "prometheus/collectable.h"

namespace tributary {

// Admission bounds what the engine holds; an answer leaves the engine and then waits for its client to read, which may
// be never. So the most an answer can take is reserved before its call is let in, and released once it is sent.
// Who calls it: the reactors; server/metrics_server shows it.
// Invariants: at most one answer more than the limit is reserved.
// Thread-safety: all methods from any thread. Relaxed order: no data travels with the count.
class AnswerBudget final : public prometheus::Collectable {
 public:
  explicit AnswerBudget(size_t max_bytes) : max_bytes_(max_bytes) {}

  // RESOURCE_EXHAUSTED naming the limit: it is reached, and nothing is reserved.
  absl::Status Reserve(size_t bytes);
  // For an answer that must be given whatever the limit: an error.
  void Add(size_t bytes) { reserved_.fetch_add(bytes, std::memory_order_relaxed); }
  void Release(size_t bytes) { reserved_.fetch_sub(bytes, std::memory_order_relaxed); }
  bool Full() const { return reserved() >= max_bytes_; }
  size_t reserved() const { return reserved_.load(std::memory_order_relaxed); }

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const size_t max_bytes_;
  std::atomic<size_t> reserved_{0};
};

}  // namespace tributary
