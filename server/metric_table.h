// The names of all metrics, in one table. Whoever fills, documents, charts or alerts on a metric goes through it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tributary {

// In the order of the table.
enum class MetricId : size_t {
  // events of the engine (prometheus_observer)
  kAdmissionCalls,
  kAdmissionItems,
  kAdmissionBytes,
  kAdmissionRejected,
  kScheduleDropped,
  kScheduleBatchItems,
  kScheduleBatchUnits,
  kLaneBatches,
  kLaneUsefulUnits,
  kLaneComputedUnits,
  kLaneBadVectors,
  kRetries,
  kItems,
  kItemStage,
  // events of the RPC layer (prometheus_observer)
  kRpcStarted,
  kRpcFinished,
  kRpcSeconds,
  kRpcInFlight,
  // answers that wait for their clients (answer_budget)
  kRpcUnsentAnswerBytes,
  // the engine's snapshot (engine_metrics)
  kAdmissionRequestsInFlight,
  kAdmissionItemsInFlight,
  kAdmissionItemsCapacity,
  kAdmissionBytesInFlight,
  kAdmissionBytesCapacity,
  kAdmissionDraining,
  kPrepareDepth,
  kQueueDepth,
  kQueueCapacity,
  kQueueOldestAge,
  kLaneBusy,
  kLaneIdle,
  kLaneInfo,
  kLaneRunning,
  kLaneBatchesInFlight,
  kModelInfo,
  kModelParameters,
  kModelParameterBytes,
  kModelSelfCheckCosine,
  kModelSelfCheckPassed,
  // the process (process_metrics)
  kBuildInfo,
  kProcessCpu,
  kProcessResident,
  kProcessVirtual,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessThreads,
  kProcessStart,
  // NVML (gpu_monitor)
  kGpuMonitorInfo,
  kGpuAbsentInfo,
  kGpuInfo,
  kGpuUtilization,
  kGpuMemoryUsed,
  kGpuMemoryTotal,
  kGpuPower,
  kGpuTemperature,
  kGpuSmClock,
  kGpuMemoryClock,
  kCount,
};

enum class MetricKind { kCounter, kGauge, kHistogram };

struct MetricRow {
  MetricId id;
  std::string_view name;
  MetricKind kind;
  std::vector<std::string_view> labels;  // names, in the order of their values
  std::string_view help;
};

// All rows; row i has id i.
std::span<const MetricRow> MetricTable();
const MetricRow& RowOf(MetricId id);

}  // namespace tributary
