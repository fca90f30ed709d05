#include "server/prometheus_observer.h"

#include <algorithm>
#include <string>

namespace tributary {
namespace {

constexpr uint64_t kMicro = 1000;  // nanoseconds
constexpr uint64_t kMilli = 1000 * kMicro;
constexpr uint64_t kSecond = 1000 * kMilli;
constexpr double kNanosToSeconds = 1e-9;

// From a queue that is never waited for to a client's patience; three steps a decade, two below a millisecond.
constexpr std::array<uint64_t, 17> kLatencyBounds = {
    100 * kMicro, 300 * kMicro, 1 * kMilli,   2 * kMilli,   5 * kMilli,   10 * kMilli,
    20 * kMilli,  50 * kMilli,  100 * kMilli, 200 * kMilli, 500 * kMilli, 1 * kSecond,
    2 * kSecond,  5 * kSecond,  10 * kSecond, 20 * kSecond, 60 * kSecond};
constexpr std::array<uint64_t, 11> kItemBounds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
// 1 pair .. 1024 images of 256 x 256.
constexpr std::array<uint64_t, 14> kUnitBounds = {1,     4,     16,     64,      256,     1024,     4096,
                                                  16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864};

constexpr std::array<std::string_view, 3> kKindNames = {"text", "image", "pair"};
constexpr std::array<std::string_view, 2> kOutcomeNames = {"ok", "error"};

AtomicHistogram LatencyHistogram() { return AtomicHistogram(kLatencyBounds, kNanosToSeconds); }

void Add(std::atomic<uint64_t>& counter, uint64_t amount) { counter.fetch_add(amount, std::memory_order_relaxed); }
double Value(const std::atomic<uint64_t>& counter) {
  return static_cast<double>(counter.load(std::memory_order_relaxed));
}
uint64_t Nanos(Duration duration) { return static_cast<uint64_t>(std::max<Duration::rep>(0, duration.count())); }

std::string CodeName(size_t code) { return absl::StatusCodeToString(static_cast<absl::StatusCode>(code)); }

}  // namespace

PrometheusObserver::ModalityCounters::ModalityCounters()
    : batch_items(kItemBounds, 1), batch_units(kUnitBounds, 1), stages{LatencyHistogram(), LatencyHistogram(),
                                                                       LatencyHistogram(), LatencyHistogram(),
                                                                       LatencyHistogram(), LatencyHistogram()} {}

PrometheusObserver::MethodCounters::MethodCounters() : duration{LatencyHistogram(), LatencyHistogram()} {}

size_t PrometheusObserver::CodeIndex(absl::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kCodeCount ? index : static_cast<size_t>(absl::StatusCode::kUnknown);
}

void PrometheusObserver::OnAdmitted(RequestKind kind, size_t items, size_t bytes) {
  KindCounters& counters = kinds_[static_cast<size_t>(kind)];
  Add(counters.calls, 1);
  Add(counters.items, items);
  Add(counters.bytes, bytes);
}

void PrometheusObserver::OnRejected(RequestKind kind, RejectReason reason) {
  Add(kinds_[static_cast<size_t>(kind)].rejected[static_cast<size_t>(reason)], 1);
}

void PrometheusObserver::OnDropped(Modality modality, DropReason reason) {
  Add(modalities_[static_cast<size_t>(modality)].dropped[static_cast<size_t>(reason)], 1);
}

void PrometheusObserver::OnBatch(const BatchEvent& event) {
  ModalityCounters& counters = modalities_[static_cast<size_t>(event.modality)];
  Add(counters.batches[CodeIndex(event.status.code())], 1);
  counters.batch_items.Observe(event.items);
  counters.batch_units.Observe(event.useful_units);
  if (event.status.ok()) {  // a batch that failed before it ran would spoil the padding ratio
    Add(counters.useful_units, event.useful_units);
    Add(counters.computed_units, event.computed_units);
  }
}

void PrometheusObserver::OnItem(const ItemEvent& event) {
  ModalityCounters& counters = modalities_[static_cast<size_t>(event.modality)];
  Add(counters.items[CodeIndex(event.code)], 1);
  auto observe = [&](Stage stage, Duration time) {
    // Zero: the stage was not entered.
    if (time > Duration::zero()) counters.stages[static_cast<size_t>(stage)].Observe(Nanos(time));
  };
  observe(Stage::kPrepareWait, event.times.prepare_wait);
  observe(Stage::kPrepare, event.times.prepare);
  observe(Stage::kQueue, event.times.queue);
  observe(Stage::kLane, event.times.lane);
  observe(Stage::kCompute, event.times.compute);
  if (event.code == absl::StatusCode::kOk) observe(Stage::kTotal, event.times.total);
}

void PrometheusObserver::OnBadVector(Modality modality) {
  Add(modalities_[static_cast<size_t>(modality)].bad_vectors, 1);
}

void PrometheusObserver::OnRetried(Modality modality, bool good) {
  ModalityCounters& counters = modalities_[static_cast<size_t>(modality)];
  Add(good ? counters.good_retries : counters.bad_retries, 1);
}

void PrometheusObserver::OnRpcStarted(RpcMethod method) { Add(methods_[static_cast<size_t>(method)].started, 1); }

void PrometheusObserver::OnRpcFinished(RpcMethod method, absl::StatusCode code, Duration elapsed) {
  MethodCounters& counters = methods_[static_cast<size_t>(method)];
  Add(counters.finished[CodeIndex(code)], 1);
  counters.duration[code == absl::StatusCode::kOk ? 0 : 1].Observe(Nanos(elapsed));
}

std::vector<prometheus::MetricFamily> PrometheusObserver::Collect() const {
  MetricSheet sheet;
  CollectKinds(sheet);
  CollectModalities(sheet);
  CollectMethods(sheet);
  return sheet.Take();
}

void PrometheusObserver::CollectKinds(MetricSheet& sheet) const {
  for (size_t k = 0; k < kKindCount; ++k) {
    const std::string kind(kKindNames[k]);
    sheet.Set(MetricId::kAdmissionCalls, {kind}, Value(kinds_[k].calls));
    sheet.Set(MetricId::kAdmissionItems, {kind}, Value(kinds_[k].items));
    sheet.Set(MetricId::kAdmissionBytes, {kind}, Value(kinds_[k].bytes));
    for (size_t r = 0; r < kRejectReasonCount; ++r) {
      const std::string reason(RejectReasonName(static_cast<RejectReason>(r)));
      sheet.Set(MetricId::kAdmissionRejected, {kind, reason}, Value(kinds_[k].rejected[r]));
    }
  }
}

void PrometheusObserver::CollectModalities(MetricSheet& sheet) const {
  for (Modality m : kAllModalities) {
    const ModalityCounters& counters = modalities_[static_cast<size_t>(m)];
    const std::string modality(ModalityName(m));
    for (size_t r = 0; r < kDropReasonCount; ++r) {
      const std::string reason(DropReasonName(static_cast<DropReason>(r)));
      sheet.Set(MetricId::kScheduleDropped, {modality, reason}, Value(counters.dropped[r]));
    }
    for (size_t c = 0; c < kCodeCount; ++c) {
      sheet.Set(MetricId::kLaneBatches, {modality, CodeName(c)}, Value(counters.batches[c]));
      sheet.Set(MetricId::kItems, {modality, CodeName(c)}, Value(counters.items[c]));
    }
    sheet.Set(MetricId::kScheduleBatchItems, {modality}, counters.batch_items);
    sheet.Set(MetricId::kScheduleBatchUnits, {modality}, counters.batch_units);
    sheet.Set(MetricId::kLaneUsefulUnits, {modality}, Value(counters.useful_units));
    sheet.Set(MetricId::kLaneComputedUnits, {modality}, Value(counters.computed_units));
    sheet.Set(MetricId::kLaneBadVectors, {modality}, Value(counters.bad_vectors));
    sheet.Set(MetricId::kRetries, {modality, "good"}, Value(counters.good_retries));
    sheet.Set(MetricId::kRetries, {modality, "bad"}, Value(counters.bad_retries));
    for (size_t s = 0; s < kStageCount; ++s) {
      sheet.Set(MetricId::kItemStage, {modality, std::string(kStageNames[s])}, counters.stages[s]);
    }
  }
}

void PrometheusObserver::CollectMethods(MetricSheet& sheet) const {
  for (size_t m = 0; m < kRpcMethodCount; ++m) {
    const MethodCounters& counters = methods_[m];
    const std::string method(RpcMethodName(static_cast<RpcMethod>(m)));
    // Finished first: a call that ends in between must not make the number of open ones negative.
    double finished = 0;
    for (size_t c = 0; c < kCodeCount; ++c) {
      const double count = Value(counters.finished[c]);
      finished += count;
      sheet.Set(MetricId::kRpcFinished, {method, CodeName(c)}, count);
    }
    const double started = Value(counters.started);
    sheet.Set(MetricId::kRpcStarted, {method}, started);
    sheet.Set(MetricId::kRpcInFlight, {method}, std::max(0.0, started - finished));
    for (size_t o = 0; o < kOutcomeCount; ++o) {
      sheet.Set(MetricId::kRpcSeconds, {method, std::string(kOutcomeNames[o])}, counters.duration[o]);
    }
  }
}

}  // namespace tributary
