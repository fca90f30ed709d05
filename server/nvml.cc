#include "server/nvml.h"

#include <dlfcn.h>

#include <initializer_list>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// dlerror() of this thread's last failure.
std::string LoaderError() {
  const char* error = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  return error == nullptr ? "unknown loader error" : error;
}

template <class Function>
void Find(void* library, const char* symbol, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::NotFoundError(absl::StrCat("NVML cannot be loaded: ", LoaderError()));
  std::unique_ptr<Nvml> nvml(new Nvml(handle));
  Find(handle, "nvmlInit_v2", &nvml->init_);
  Find(handle, "nvmlShutdown", &nvml->shutdown_);
  Find(handle, "nvmlDeviceGetCount_v2", &nvml->device_count);
  Find(handle, "nvmlDeviceGetHandleByIndex_v2", &nvml->device_by_index);
  Find(handle, "nvmlDeviceGetName", &nvml->name);
  Find(handle, "nvmlDeviceGetUUID", &nvml->uuid);
  Find(handle, "nvmlDeviceGetUtilizationRates", &nvml->utilization);
  Find(handle, "nvmlDeviceGetMemoryInfo", &nvml->memory);
  Find(handle, "nvmlDeviceGetPowerUsage", &nvml->power);
  Find(handle, "nvmlDeviceGetTemperature", &nvml->temperature);
  Find(handle, "nvmlDeviceGetClockInfo", &nvml->clock);
  if (nvml->init_ == nullptr || nvml->shutdown_ == nullptr || nvml->device_count == nullptr ||
      nvml->device_by_index == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        library, " lacks nvmlInit_v2, nvmlShutdown, nvmlDeviceGetCount_v2 or nvmlDeviceGetHandleByIndex_v2"));
  }
  if (const int code = nvml->init_(); code != kNvmlSuccess) {
    return absl::UnavailableError(absl::StrCat("NVML does not start: ", NvmlReason(code), " (code ", code, ")"));
  }
  nvml->initialised_ = true;
  return nvml;
}

Nvml::~Nvml() {
  if (initialised_) shutdown_();
  dlclose(library_);
}

std::string NvmlReason(int code) {
  switch (code) {
    case 1:
      return "uninitialized";
    case 2:
      return "invalid_argument";
    case 3:
      return "not_supported";
    case 4:
      return "no_permission";
    case 6:
      return "not_found";
    case 9:
      return "driver_not_loaded";
    case 10:
      return "timeout";
    case 12:
      return "library_not_found";
    case 13:
      return "function_not_found";
    case 15:
      return "gpu_is_lost";
    case 16:
      return "reset_required";
    case 18:
      return "driver_library_version_mismatch";
    case 999:
      return "unknown";
    default:
      return "other";
  }
}

}  // namespace tributary
