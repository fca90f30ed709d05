#include "engine/libtorch/engine_factory.h"

#include <ATen/Version.h>

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/worker_thread.h"
#include "engine/lane/cpu_device.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/model_loader.h"
#include "engine/pipeline/pipeline.h"

#ifdef TRIBUTARY_CUDA
#include "engine/libtorch/device/cuda_device.h"
#endif

namespace tributary {
namespace {

int CudaDevices() {
#ifdef TRIBUTARY_CUDA
  return CudaDeviceCount();
#else
  return 0;
#endif
}

absl::StatusOr<ProgramDevice> ResolveDevice(std::string_view name) {
  if (name == "cpu") return ProgramDevice{DeviceKind::kCpu, 0};
  if (name == "auto") return ProgramDevice{CudaDevices() > 0 ? DeviceKind::kCuda : DeviceKind::kCpu, 0};
  int index = 0;
  const std::string_view number = name.size() > 5 ? name.substr(5) : "0";
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  const bool cuda = name == "cuda" || name.substr(0, 5) == "cuda:";
  if (!cuda || error != std::errc() || end != number.data() + number.size() || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("lanes.device must be auto, cpu, cuda or cuda:N, is '", std::string(name), "'"));
  }
#ifndef TRIBUTARY_CUDA
  return absl::UnavailableError(
      absl::StrCat("lanes.device is ", std::string(name), ", but this program was built without CUDA (preset cuda)"));
#else
  if (index >= CudaDevices()) {
    return absl::UnavailableError(
        absl::StrCat("lanes.device is ", std::string(name), ", but there are ", CudaDevices(), " CUDA devices"));
  }
  return ProgramDevice{DeviceKind::kCuda, index};
#endif
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const ProgramDevice& device, const EngineOptions& options,
                                                   Clock* clock) {
#ifdef TRIBUTARY_CUDA
  if (device.kind == DeviceKind::kCuda) return CreateCudaDevice(device.index, clock);
#else
  static_cast<void>(device);
#endif
  CpuDeviceOptions cpu;
  cpu.affinity = options.lanes.cpu_affinity;
  cpu.thread_init = [](size_t) { InitTorchThread(); };
  return CreateCpuDevice(std::move(cpu), clock);
}

absl::StatusOr<std::vector<ServedModel>> LoadModels(const EngineOptions& options, const ProgramDevice& device) {
  InitTorchThread();
  std::vector<ServedModel> models;
  for (const ModelOptions& options_of_model : options.models) {
    auto model = LoadModel(options, options_of_model, device);
    if (!model.ok()) return model.status();
    models.push_back(*std::move(model));
  }
  return models;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> CreateLibtorchEngine(const EngineOptions& options, Clock* clock,
                                                             Observer* observer) {
  if (auto status = Validate(options); !status.ok()) return status;
  auto device = ResolveDevice(options.lanes.device);
  if (!device.ok()) return device.status();

  // A thread of its own: how LibTorch's operators run is set per thread, and the caller's is not ours to change.
  absl::StatusOr<std::vector<ServedModel>> models;
  try {
    WorkerThread("trib-load", [&] { models = GuardTorch([&] { return LoadModels(options, *device); }); }).Join();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread to load the models: ", error.what()));
  }
  if (!models.ok()) return models.status();

  auto lane_device = MakeDevice(*device, options, clock);
  if (!lane_device.ok()) return lane_device.status();
  const bool cuda = device->kind == DeviceKind::kCuda;
  PipelineParts parts;
  parts.models = *std::move(models);
  parts.device = *std::move(lane_device);
  parts.lane_count = options.lanes.count;
  if (parts.lane_count == 0) parts.lane_count = cuda ? 2 : UsableCpuCount();
  parts.slots_per_lane = options.lanes.slots;
  if (parts.slots_per_lane == 0) parts.slots_per_lane = cuda ? 3 : 2;
  return CreatePipeline(options, std::move(parts), clock, observer);
}

std::string LibtorchVersion() {
  // The library's own build settings: "..., TORCH_VERSION=2.11.0, ...", "..., CUDA_VERSION=13.0, ...".
  const std::string settings = at::show_config();
  const auto value = [&](std::string_view key) {
    const size_t found = settings.find(key);
    if (found == std::string::npos) return std::string();
    const size_t begin = found + key.size();
    return settings.substr(begin, settings.find_first_of(", \n", begin) - begin);
  };
  std::string version = value("TORCH_VERSION=");
  std::string cuda = value("CUDA_VERSION=");
  std::erase(cuda, '.');
  return cuda.empty() ? version : absl::StrCat(version, "+cu", cuda);
}

}  // namespace tributary
