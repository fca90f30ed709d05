// The few functions of NVML, NVIDIA's management library, that the GPU monitor calls: found at run time, never linked.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tributary {

// Types and numbers as NVML's ABI has them. Source: NVML API reference, docs.nvidia.com/deploy/nvml-api.
using NvmlDevice = void*;
struct NvmlUtilization {
  unsigned int gpu_percent;
  unsigned int memory_percent;
};
struct NvmlMemory {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};
enum NvmlClock : int { kNvmlClockSm = 1, kNvmlClockMemory = 2 };
inline constexpr int kNvmlTemperatureGpu = 0;
inline constexpr int kNvmlSuccess = 0;

// The loaded and initialised library. Null function: this library does not have it.
// Ownership: the destructor shuts NVML down and closes the library.
// Thread-safety: NVML's functions may be called from any thread.
class Nvml {
 public:
  // `library`: name or path for the loader.
  // Errors: NOT_FOUND no such library; UNIMPLEMENTED a function without which nothing works is missing;
  //   UNAVAILABLE NVML would not start (no driver).
  static absl::StatusOr<std::unique_ptr<Nvml>> Load(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  int (*device_count)(unsigned int* count) = nullptr;
  int (*device_by_index)(unsigned int index, NvmlDevice* device) = nullptr;
  int (*name)(NvmlDevice device, char* name, unsigned int length) = nullptr;
  int (*uuid)(NvmlDevice device, char* uuid, unsigned int length) = nullptr;
  int (*utilization)(NvmlDevice device, NvmlUtilization* utilization) = nullptr;
  int (*memory)(NvmlDevice device, NvmlMemory* memory) = nullptr;
  int (*power)(NvmlDevice device, unsigned int* milliwatts) = nullptr;
  int (*temperature)(NvmlDevice device, int sensor, unsigned int* celsius) = nullptr;
  int (*clock)(NvmlDevice device, int clock, unsigned int* megahertz) = nullptr;

 private:
  explicit Nvml(void* library) : library_(library) {}

  void* const library_;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  bool initialised_ = false;
};

// "not_supported", "gpu_is_lost", ...; "other" for codes that NVML may add: label values stay bounded.
std::string NvmlReason(int code);

}  // namespace tributary
