// Reads utilisation, memory, power, temperature and clocks of every GPU through NVML, on a thread of its own.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/worker_thread.h"
#include "prometheus/collectable.h"
#include "server/metric_table.h"
#include "server/nvml.h"

namespace tributary {

struct GpuMonitorOptions {
  bool enabled = true;
  std::string library = "libnvidia-ml.so.1";
  Duration period = std::chrono::seconds(1);
};

// Scraped by server/metrics_server. The first sample is there when the constructor returns.
// Invariants: a value that cannot be had is absent, never 0: tributary_gpu_absent_info says which and why, and
//   tributary_gpu_monitor_info why there is none at all. Label values are bounded but for names and UUIDs of the GPUs.
// Thread-safety: Collect from any thread. Thread: "trib-gpu-mon", only where NVML has started; a slow driver call
// delays
//   the next sample, never a scrape.
class GpuMonitor final : public prometheus::Collectable {
 public:
  explicit GpuMonitor(const GpuMonitorOptions& options);
  ~GpuMonitor() override;

  std::vector<prometheus::MetricFamily> Collect() const override;
  // For the log: why there are no values at all; empty: there are.
  std::string problem() const TRIBUTARY_EXCLUDES(mutex_);
  // What the thread does once a period; public for tests. Only where NVML has started.
  void Sample();

 private:
  // A number, or NVML's reason for its absence.
  struct Reading {
    MetricId metric;
    double value = 0;
    std::string absent_because;  // empty: value holds
  };
  struct Gpu {
    std::string name;
    std::string uuid;
    std::vector<Reading> readings;
  };
  struct State {
    std::string reason = "none";  // of tributary_gpu_monitor_info
    std::string detail;
    std::vector<Gpu> gpus;
  };

  Gpu Read(NvmlDevice device) const;
  void Publish(State state) TRIBUTARY_EXCLUDES(mutex_);
  void PublishAbsence(std::string reason, std::string detail) TRIBUTARY_EXCLUDES(mutex_);
  void Loop() TRIBUTARY_EXCLUDES(mutex_);

  const Duration period_;
  std::unique_ptr<Nvml> nvml_;
  mutable Mutex mutex_;
  CondVar stop_requested_;
  bool stop_ TRIBUTARY_GUARDED_BY(mutex_) = false;
  State state_ TRIBUTARY_GUARDED_BY(mutex_);
  WorkerThread thread_;  // last: it uses the others
};

}  // namespace tributary
