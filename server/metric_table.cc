#include "server/metric_table.h"

namespace tributary {
namespace {

using Id = MetricId;
constexpr auto kCounter = MetricKind::kCounter;
constexpr auto kGauge = MetricKind::kGauge;
constexpr auto kHistogram = MetricKind::kHistogram;

// clang-format off
const std::vector<MetricRow>& Rows() {
  static const std::vector<MetricRow> kRows = {
      {Id::kAdmissionCalls, "tributary_admission_calls_total", kCounter, {"kind"}, "Calls let in"},
      {Id::kAdmissionItems, "tributary_admission_items_total", kCounter, {"kind"}, "Items of the calls let in (a pair counts one for each of its parts and one for fusion)"},
      {Id::kAdmissionBytes, "tributary_admission_bytes_total", kCounter, {"kind"}, "Input bytes of the calls let in"},
      {Id::kAdmissionRejected, "tributary_admission_rejected_total", kCounter, {"kind", "reason"}, "Calls refused at the door, by the limit that refused them"},
      {Id::kScheduleDropped, "tributary_schedule_dropped_items_total", kCounter, {"modality", "reason"}, "Items given up before they cost compute"},
      {Id::kScheduleBatchItems, "tributary_schedule_batch_items", kHistogram, {"modality"}, "Items of a batch"},
      {Id::kScheduleBatchUnits, "tributary_schedule_batch_units", kHistogram, {"modality"}, "Useful units of a batch: tokens (text), pixels (image), pairs (fusion)"},
      {Id::kLaneBatches, "tributary_lane_batches_total", kCounter, {"modality", "code"}, "Batches executed"},
      {Id::kLaneUsefulUnits, "tributary_lane_useful_units_total", kCounter, {"modality"}, "Tokens, pixels or pairs of the items executed"},
      {Id::kLaneComputedUnits, "tributary_lane_computed_units_total", kCounter, {"modality"}, "Tokens, pixels or pairs the arithmetic ran over; what exceeds the useful ones is padding"},
      {Id::kLaneBadVectors, "tributary_lane_bad_vectors_total", kCounter, {"modality"}, "Vectors refused because a value was not finite or the norm was zero"},
      {Id::kRetries, "tributary_pipeline_fp32_retries_total", kCounter, {"modality", "outcome"}, "Items run once more in fp32 because their vector was refused; outcome good or bad"},
      {Id::kItems, "tributary_pipeline_items_total", kCounter, {"modality", "code"}, "Items completed, by how they ended"},
      {Id::kItemStage, "tributary_pipeline_stage_seconds", kHistogram, {"modality", "stage"}, "Time of an item in a stage it entered; stage total: admission to completion of successful items"},

      {Id::kRpcStarted, "tributary_rpc_started_total", kCounter, {"method"}, "RPCs that arrived"},
      {Id::kRpcFinished, "tributary_rpc_finished_total", kCounter, {"method", "code"}, "RPCs that are over, by the code sent"},
      {Id::kRpcSeconds, "tributary_rpc_duration_seconds", kHistogram, {"method", "outcome"}, "Time from the arrival of an RPC to its end; outcome ok or error"},
      {Id::kRpcInFlight, "tributary_rpc_in_flight", kGauge, {"method"}, "RPCs open now"},
      {Id::kRpcUnsentAnswerBytes, "tributary_rpc_unsent_answer_bytes", kGauge, {}, "Bytes kept for answers that are not sent yet, from the admission of their calls on"},

      {Id::kAdmissionRequestsInFlight, "tributary_admission_requests_in_flight", kGauge, {}, "Requests between admission and completion"},
      {Id::kAdmissionItemsInFlight, "tributary_admission_items_in_flight", kGauge, {}, "Items between admission and completion"},
      {Id::kAdmissionItemsCapacity, "tributary_admission_items_capacity", kGauge, {}, "Items that may be in flight"},
      {Id::kAdmissionBytesInFlight, "tributary_admission_in_flight_bytes", kGauge, {}, "Input bytes between admission and completion"},
      {Id::kAdmissionBytesCapacity, "tributary_admission_capacity_bytes", kGauge, {}, "Input bytes that may be in flight"},
      {Id::kAdmissionDraining, "tributary_admission_draining", kGauge, {}, "1 while the server drains and takes no new calls"},
      {Id::kPrepareDepth, "tributary_prepare_depth_items", kGauge, {}, "Items waiting for a preparation worker"},
      {Id::kQueueDepth, "tributary_queue_depth_items", kGauge, {"modality"}, "Prepared items waiting for a batch"},
      {Id::kQueueCapacity, "tributary_queue_capacity_items", kGauge, {"modality"}, "Prepared items that may wait"},
      {Id::kQueueOldestAge, "tributary_queue_oldest_age_seconds", kGauge, {"modality"}, "Age of the item waiting longest; 0 when none waits"},
      {Id::kLaneBusy, "tributary_lane_busy_seconds_total", kCounter, {"lane", "modality"}, "Time the lane executed batches of the modality"},
      {Id::kLaneIdle, "tributary_lane_idle_seconds_total", kCounter, {"lane", "cause"}, "Time the lane executed nothing, by what it waited for"},
      {Id::kLaneInfo, "tributary_lane_info", kGauge, {"lane", "device"}, "1 for each lane"},
      {Id::kLaneRunning, "tributary_lane_running_seconds", kGauge, {"lane"}, "How long the current batch has been executing; 0 when idle"},
      {Id::kLaneBatchesInFlight, "tributary_lane_batches_in_flight", kGauge, {"lane"}, "Batches handed to the lane and not yet done"},
      {Id::kModelInfo, "tributary_model_info", kGauge, {"model", "revision", "default", "modalities", "dimensions", "compute_type", "image_compute_type", "fusion"}, "1 for each model served"},
      {Id::kModelParameters, "tributary_model_parameters", kGauge, {"model"}, "Parameters of the model"},
      {Id::kModelParameterBytes, "tributary_model_parameter_bytes", kGauge, {"model"}, "Memory of the model's parameters"},
      {Id::kModelSelfCheckCosine, "tributary_model_self_check_cosine", kGauge, {"model"}, "Lowest cosine to the reference vectors the configuration names; absent where it names none"},
      {Id::kModelSelfCheckPassed, "tributary_model_self_check_passed", kGauge, {"model"}, "1 where the model equals its reference vectors, 0 where it serves all the same; absent where there are none"},

      {Id::kBuildInfo, "tributary_build_info", kGauge, {"version", "libtorch"}, "1, with what the program was built from"},
      {Id::kProcessCpu, "process_cpu_seconds_total", kCounter, {}, "User and system CPU time of the process"},
      {Id::kProcessResident, "process_resident_memory_bytes", kGauge, {}, "Resident memory of the process"},
      {Id::kProcessVirtual, "process_virtual_memory_bytes", kGauge, {}, "Virtual memory of the process"},
      {Id::kProcessOpenFds, "process_open_fds", kGauge, {}, "Open file descriptors"},
      {Id::kProcessMaxFds, "process_max_fds", kGauge, {}, "File descriptors the process may open"},
      {Id::kProcessThreads, "process_threads", kGauge, {}, "Threads of the process"},
      {Id::kProcessStart, "process_start_time_seconds", kGauge, {}, "Start of the process, seconds since 1970"},

      {Id::kGpuMonitorInfo, "tributary_gpu_monitor_info", kGauge, {"reason"}, "1, with why there are no GPU values: none (there are), disabled, library_not_found, function_missing, nvml_error, no_devices"},
      {Id::kGpuAbsentInfo, "tributary_gpu_absent_info", kGauge, {"gpu", "value", "reason"}, "1 for each value that this GPU does not give, with NVML's reason"},
      {Id::kGpuInfo, "tributary_gpu_info", kGauge, {"gpu", "name", "uuid"}, "1 for each GPU"},
      {Id::kGpuUtilization, "tributary_gpu_utilization_ratio", kGauge, {"gpu"}, "Share of the last sampling period in which a kernel ran, 0..1"},
      {Id::kGpuMemoryUsed, "tributary_gpu_memory_used_bytes", kGauge, {"gpu"}, "GPU memory in use"},
      {Id::kGpuMemoryTotal, "tributary_gpu_memory_total_bytes", kGauge, {"gpu"}, "GPU memory"},
      {Id::kGpuPower, "tributary_gpu_power_watts", kGauge, {"gpu"}, "Power draw"},
      {Id::kGpuTemperature, "tributary_gpu_temperature_celsius", kGauge, {"gpu"}, "Temperature of the GPU"},
      {Id::kGpuSmClock, "tributary_gpu_sm_clock_hertz", kGauge, {"gpu"}, "Clock of the streaming multiprocessors"},
      {Id::kGpuMemoryClock, "tributary_gpu_memory_clock_hertz", kGauge, {"gpu"}, "Clock of the memory"},
  };
  return kRows;
}
// clang-format on

}  // namespace

std::span<const MetricRow> MetricTable() { return Rows(); }

const MetricRow& RowOf(MetricId id) { return Rows()[static_cast<size_t>(id)]; }

}  // namespace tributary
