#include "server/gpu_monitor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/metric_sheet.h"

namespace tributary {
namespace {

constexpr std::array<MetricId, 7> kValues = {
    MetricId::kGpuUtilization, MetricId::kGpuMemoryUsed, MetricId::kGpuMemoryTotal, MetricId::kGpuPower,
    MetricId::kGpuTemperature, MetricId::kGpuSmClock,    MetricId::kGpuMemoryClock};

constexpr const char* kFunctionMissing = "function_missing";

std::string ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return "library_not_found";
    case absl::StatusCode::kUnimplemented:
      return kFunctionMissing;
    default:
      return "nvml_error";
  }
}

// Calls an NVML function that may be missing; empty: it worked.
template <class Function, class... Args>
std::string Call(Function function, Args... args) {
  if (function == nullptr) return kFunctionMissing;
  const int code = function(args...);
  return code == kNvmlSuccess ? std::string() : NvmlReason(code);
}

template <class Function>
std::string Text(Function function, NvmlDevice device) {
  std::array<char, 96> buffer{};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longer of the two
  return Call(function, device, buffer.data(), static_cast<unsigned int>(buffer.size())).empty() ? buffer.data() : "";
}

}  // namespace

GpuMonitor::GpuMonitor(const GpuMonitorOptions& options) : period_(options.period) {
  if (!options.enabled) {
    PublishAbsence("disabled", "switched off by configuration");
    return;
  }
  absl::StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Load(options.library);
  if (!nvml.ok()) {
    PublishAbsence(ReasonOf(nvml.status()), std::string(nvml.status().message()));
    return;
  }
  nvml_ = *std::move(nvml);
  Sample();
  thread_ = WorkerThread("trib-gpu-mon", [this] { Loop(); });
}

GpuMonitor::~GpuMonitor() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  stop_requested_.NotifyAll();
  thread_.Join();
}

void GpuMonitor::Loop() {
  SteadyClock clock;
  for (;;) {
    {
      const TimePoint wake_at = clock.Now() + period_;
      MutexLock lock(mutex_);
      while (!stop_ && stop_requested_.WaitUntil(mutex_, wake_at)) {
      }
      if (stop_) return;
    }
    Sample();
  }
}

// Devices are counted and opened anew every time: one that falls off the bus, or comes back, is seen.
void GpuMonitor::Sample() {
  unsigned int count = 0;
  if (const std::string error = Call(nvml_->device_count, &count); !error.empty()) {
    PublishAbsence("nvml_error", "NVML cannot count the GPUs: " + error);
    return;
  }
  if (count == 0) {
    PublishAbsence("no_devices", "NVML sees no GPU");
    return;
  }
  State state;
  for (unsigned int i = 0; i < count; ++i) {
    NvmlDevice device = nullptr;
    const std::string error = Call(nvml_->device_by_index, i, &device);
    if (error.empty()) {
      state.gpus.push_back(Read(device));
      continue;
    }
    Gpu& absent = state.gpus.emplace_back();
    for (MetricId metric : kValues) absent.readings.push_back({metric, 0, error});
  }
  Publish(std::move(state));
}

GpuMonitor::Gpu GpuMonitor::Read(NvmlDevice device) const {
  Gpu gpu;
  gpu.name = Text(nvml_->name, device);
  gpu.uuid = Text(nvml_->uuid, device);
  auto add = [&gpu](MetricId metric, std::string error, double value) {
    gpu.readings.push_back({metric, value, std::move(error)});
  };

  NvmlUtilization utilization{};
  std::string error = Call(nvml_->utilization, device, &utilization);
  add(MetricId::kGpuUtilization, error, utilization.gpu_percent / 100.0);

  NvmlMemory memory{};
  error = Call(nvml_->memory, device, &memory);
  add(MetricId::kGpuMemoryUsed, error, static_cast<double>(memory.used_bytes));
  add(MetricId::kGpuMemoryTotal, error, static_cast<double>(memory.total_bytes));

  unsigned int milliwatts = 0;
  error = Call(nvml_->power, device, &milliwatts);
  add(MetricId::kGpuPower, error, milliwatts / 1e3);

  unsigned int celsius = 0;
  error = Call(nvml_->temperature, device, kNvmlTemperatureGpu, &celsius);
  add(MetricId::kGpuTemperature, error, celsius);

  for (auto [metric, clock] :
       {std::pair{MetricId::kGpuSmClock, kNvmlClockSm}, std::pair{MetricId::kGpuMemoryClock, kNvmlClockMemory}}) {
    unsigned int megahertz = 0;
    error = Call(nvml_->clock, device, static_cast<int>(clock), &megahertz);
    add(metric, error, megahertz * 1e6);
  }
  return gpu;
}

void GpuMonitor::Publish(State state) {
  MutexLock lock(mutex_);
  state_ = std::move(state);
}

void GpuMonitor::PublishAbsence(std::string reason, std::string detail) {
  State state;
  state.reason = std::move(reason);
  state.detail = std::move(detail);
  Publish(std::move(state));
}

std::string GpuMonitor::problem() const {
  MutexLock lock(mutex_);
  return state_.detail;
}

std::vector<prometheus::MetricFamily> GpuMonitor::Collect() const {
  State state;
  {
    MutexLock lock(mutex_);
    state = state_;
  }
  MetricSheet sheet;
  sheet.Set(MetricId::kGpuMonitorInfo, {state.reason}, 1);
  sheet.Declare(MetricId::kGpuAbsentInfo);
  sheet.Declare(MetricId::kGpuInfo);
  for (MetricId metric : kValues) sheet.Declare(metric);
  for (size_t i = 0; i < state.gpus.size(); ++i) {
    const Gpu& gpu = state.gpus[i];
    const std::string index = std::to_string(i);
    sheet.Set(MetricId::kGpuInfo, {index, gpu.name, gpu.uuid}, 1);
    for (const Reading& reading : gpu.readings) {
      if (reading.absent_because.empty()) {
        sheet.Set(reading.metric, {index}, reading.value);
      } else {
        sheet.Set(MetricId::kGpuAbsentInfo, {index, std::string(RowOf(reading.metric).name), reading.absent_because},
                  1);
      }
    }
  }
  return sheet.Take();
}

}  // namespace tributary
