#include "engine/libtorch/engine_factory.h"

#include <ATen/Version.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/heap.h"
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

absl::StatusOr<ProgramDevice> ResolveDevice(const std::string& key, std::string_view name) {
  if (name == "cpu") return ProgramDevice{DeviceKind::kCpu, 0};
  if (name == "auto") return ProgramDevice{CudaDevices() > 0 ? DeviceKind::kCuda : DeviceKind::kCpu, 0};
  int index = 0;
  const std::string_view number = name.size() > 5 ? name.substr(5) : "0";
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  const bool cuda = name == "cuda" || name.substr(0, 5) == "cuda:";
  if (!cuda || error != std::errc() || end != number.data() + number.size() || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be auto, cpu, cuda or cuda:N, is '", std::string(name), "'"));
  }
#ifndef TRIBUTARY_CUDA
  return absl::UnavailableError(
      absl::StrCat(key, " is ", std::string(name), ", but this program was built without CUDA (preset cuda)"));
#else
  if (index >= CudaDevices()) {
    return absl::UnavailableError(
        absl::StrCat(key, " is ", std::string(name), ", but there are ", CudaDevices(), " CUDA devices"));
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

// Where the encoders of a model run, by device. Index: Modality. Empty: the model does not serve it.
using DevicesByModality = std::array<std::set<ProgramDevice>, kModalityCount>;

// `key`: of the model, as errors name it.
absl::StatusOr<DevicesByModality> ResolvePlacement(const EngineOptions& options, const std::string& key,
                                                   const ModelOptions& model) {
  auto parts = FindParts(model);
  if (!parts.ok()) return absl::Status(parts.status().code(), absl::StrCat(key, ": ", parts.status().message()));
  const bool texts = !parts->text.empty();
  const bool images = !parts->image.empty();
  const std::array<const Placement*, kModalityCount> placements = {
      texts ? &model.text.placement : nullptr, images ? &model.image.placement : nullptr,
      texts && images && !model.fusion.kind.empty() ? &model.fusion.placement : nullptr};
  DevicesByModality devices;
  for (const Modality modality : kAllModalities) {
    const auto m = static_cast<size_t>(modality);
    if (placements[m] == nullptr) continue;
    const std::string own_key = absl::StrCat(key, ".", std::string(ModalityName(modality)), ".placement");
    const bool own = !placements[m]->empty();
    for (const std::string& name : own ? *placements[m] : Placement{options.lanes.device}) {
      auto device = ResolveDevice(own ? own_key : "lanes.device", name);
      if (!device.ok()) return device.status();
      devices[m].insert(*device);
    }
  }
  return devices;
}

std::string NameOf(const ProgramDevice& device) {
  return device.kind == DeviceKind::kCpu ? "cpu" : absl::StrCat("cuda:", device.index);
}

// Everything that will have lanes. The CPU is first: lane i of cpu_affinity is then lane i of the engine.
using DeviceList = std::vector<ProgramDevice>;

absl::StatusOr<DeviceList> ResolveDevices(const EngineOptions& options) {
  std::set<ProgramDevice> all;
  for (size_t i = 0; i < options.models.size(); ++i) {
    auto devices = ResolvePlacement(options, absl::StrCat("models[", i, "]"), options.models[i]);
    if (!devices.ok()) return devices.status();
    for (const auto& of_modality : *devices) all.insert(of_modality.begin(), of_modality.end());
  }
  return DeviceList(all.begin(), all.end());
}

absl::StatusOr<ModelPlacement> Place(const EngineOptions& options, const std::string& key, const ModelOptions& model,
                                     const DeviceList& devices) {
  auto by_modality = ResolvePlacement(options, key, model);
  if (!by_modality.ok()) return by_modality.status();
  ModelPlacement placement;
  for (size_t m = 0; m < kModalityCount; ++m) {
    for (const ProgramDevice& device : (*by_modality)[m]) {
      const auto found = std::find(devices.begin(), devices.end(), device);
      if (found == devices.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            key, ".", std::string(ModalityName(kAllModalities[m])), " is to be on ", NameOf(device),
            ", which has no lanes: they are made at start, on the devices that models are placed on then"));
      }
      placement[m].push_back({device, static_cast<size_t>(found - devices.begin())});
    }
  }
  return placement;
}

// Calls `load` on a thread of its own: how LibTorch's operators run is set per thread, and the caller's is not ours to
// change.
template <typename Load>
auto OnLoadThread(Load load) -> decltype(load()) {
  decltype(load()) loaded = absl::UnknownError("nothing was loaded");
  try {
    WorkerThread("trib-load", [&] {
      InitTorchThread();
      const MappedBlocks mapped;
      loaded = GuardTorch(load);
    }).Join();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread to load models: ", error.what()));
  }
  return loaded;
}

// What its last owner lets go of after a model, or what of it was loaded: the memory then goes back to the device.
std::shared_ptr<const void> MemoryReturn() {
#ifdef TRIBUTARY_CUDA
  return {nullptr, [](const void*) { ReleaseCachedCudaMemory(); }};
#else
  return nullptr;
#endif
}

absl::StatusOr<ServedModel> LoadPlaced(const EngineOptions& options, const std::string& key, const ModelOptions& model,
                                       const DeviceList& devices) {
  auto placement = Place(options, key, model, devices);
  if (!placement.ok()) return placement.status();
  std::shared_ptr<const void> last = MemoryReturn();
  auto loaded = LoadModel(options, model, *placement);
  if (loaded.ok()) loaded->last = std::move(last);
  return loaded;
}

absl::StatusOr<std::vector<ServedModel>> LoadModels(const EngineOptions& options, const DeviceList& devices) {
  std::vector<ServedModel> models;
  for (size_t i = 0; i < options.models.size(); ++i) {
    auto model = LoadPlaced(options, absl::StrCat("models[", i, "]"), options.models[i], devices);
    if (!model.ok()) return model.status();
    models.push_back(*std::move(model));
  }
  return models;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> CreateLibtorchEngine(const EngineOptions& options, Clock* clock,
                                                             Observer* observer) {
  if (auto status = Validate(options); !status.ok()) return status;
  auto devices = ResolveDevices(options);
  if (!devices.ok()) return devices.status();

  auto models = OnLoadThread([&] { return LoadModels(options, *devices); });
  if (!models.ok()) return models.status();

  PipelineParts parts;
  parts.models = *std::move(models);
  for (const ProgramDevice& device : *devices) {
    auto lane_device = MakeDevice(device, options, clock);
    if (!lane_device.ok()) return lane_device.status();
    const bool cuda = device.kind == DeviceKind::kCuda;
    DeviceParts& made = parts.devices.emplace_back();
    made.device = *std::move(lane_device);
    made.lane_count = options.lanes.count;
    if (made.lane_count == 0) made.lane_count = cuda ? 2 : UsableCpuCount();
    made.slots_per_lane = options.lanes.slots;
    if (made.slots_per_lane == 0) made.slots_per_lane = cuda ? 3 : 2;
  }
  parts.loader = [options, devices = *devices](const ModelOptions& model) {
    return OnLoadThread([&] { return LoadPlaced(options, "model", model, devices); });
  };
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
