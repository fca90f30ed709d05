// Counts what happens in the engine and at the RPC layer, for Prometheus: the observer of both.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/api/observer.h"
#include "prometheus/collectable.h"
#include "server/metric_sheet.h"
#include "server/rpc_observer.h"

namespace tributary {

// Called by the engine's threads and by server/embed_service; scraped by server/metrics_server.
// Invariants: every series of every bounded label set is there from the start, at 0. Events only add to atomics found
// by
//   index: no lock, no allocation, no look-up by name.
// Thread-safety: all methods from any thread; relaxed counters, so a scrape is not a cut through one moment.
class PrometheusObserver final : public Observer, public RpcObserver, public prometheus::Collectable {
 public:
  void OnAdmitted(RequestKind kind, size_t items, size_t bytes) override;
  void OnRejected(RequestKind kind, RejectReason reason) override;
  void OnDropped(Modality modality, DropReason reason) override;
  void OnBatch(const BatchEvent& event) override;
  void OnItem(const ItemEvent& event) override;
  void OnBadVector(Modality modality) override;
  void OnRetried(Modality modality, bool good) override;

  void OnRpcStarted(RpcMethod method) override;
  void OnRpcFinished(RpcMethod method, absl::StatusCode code, Duration elapsed) override;

  std::vector<prometheus::MetricFamily> Collect() const override;

  // The stages of an item, as the label "stage" names them.
  enum class Stage : uint8_t { kPrepareWait, kPrepare, kQueue, kLane, kCompute, kTotal };
  static constexpr size_t kStageCount = 6;
  static constexpr std::array<std::string_view, kStageCount> kStageNames = {"prepare_wait", "prepare", "queue",
                                                                            "lane",         "compute", "total"};

 private:
  static constexpr size_t kKindCount = 3;
  static constexpr size_t kCodeCount = 17;  // OK..UNAUTHENTICATED; any other counts as UNKNOWN
  static constexpr size_t kOutcomeCount = 2;

  using Counter = std::atomic<uint64_t>;
  template <size_t N>
  using Counters = std::array<Counter, N>;

  struct KindCounters {
    Counter calls{0};
    Counter items{0};
    Counter bytes{0};
    Counters<kRejectReasonCount> rejected{};
  };
  struct ModalityCounters {
    ModalityCounters();
    Counters<kDropReasonCount> dropped{};
    Counters<kCodeCount> batches{};
    Counters<kCodeCount> items{};
    Counter useful_units{0};
    Counter computed_units{0};
    Counter bad_vectors{0};
    Counter good_retries{0};
    Counter bad_retries{0};
    AtomicHistogram batch_items;
    AtomicHistogram batch_units;
    std::array<AtomicHistogram, kStageCount> stages;
  };
  struct MethodCounters {
    MethodCounters();
    Counter started{0};
    Counters<kCodeCount> finished{};
    std::array<AtomicHistogram, kOutcomeCount> duration;
  };

  static size_t CodeIndex(absl::StatusCode code);
  void CollectKinds(MetricSheet& sheet) const;
  void CollectModalities(MetricSheet& sheet) const;
  void CollectMethods(MetricSheet& sheet) const;

  std::array<KindCounters, kKindCount> kinds_;
  std::array<ModalityCounters, kModalityCount> modalities_;
  std::array<MethodCounters, kRpcMethodCount> methods_;
};

}  // namespace tributary
