// AOTInductor packages. The one file with their headers, which bring much of LibTorch with them.
#include <ATen/cpu/Utils.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/exported/exported_module.h"

namespace tributary {
namespace {

using torch::inductor::AOTIModelPackageLoader;

// The name torch gives a package that holds one model.
constexpr const char* kModelName = "model";

class AotInductorModule final : public ExportedModule {
 public:
  AotInductorModule(const ExportManifest& manifest, const ProgramDevice& device, size_t runners)
      : output_(manifest.output.index),
        loader_(manifest.module_path, kModelName, /*run_single_threaded=*/false, runners,
                device.kind == DeviceKind::kCuda ? static_cast<c10::DeviceIndex>(device.index) : c10::DeviceIndex{-1}) {
  }

  at::Tensor Forward(const std::vector<at::Tensor>& inputs) const override {
    std::vector<at::Tensor> outputs = loader_.run(inputs);
    TORCH_CHECK(output_ < outputs.size(), "output.index is ", output_, ", the module returns ", outputs.size());
    return outputs[output_];
  }

 private:
  const size_t output_;
  // run() is not const, but may be called by many threads: it takes a free one of its runners, or waits for one.
  mutable AOTIModelPackageLoader loader_;
};

// A package for the CPU holds instructions of the processor it was made on: on one without them the process would die.
absl::Status CheckProcessor(const std::string& instructions) {
  const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto has = [&](const char* name) {
    const auto found = capabilities.find(name);
    return found != capabilities.end() && found->second.isBool() && found->second.toBool();
  };
  const auto missing = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "was compiled for ", what, ", which this processor does not have: export it on a machine like it"));
  };
  if (absl::StrContains(instructions, "AVX512") && !has("avx512_f")) return missing("AVX-512");
  if (absl::StrContains(instructions, "AVX2") && !has("avx2")) return missing("AVX2");
  if (absl::StrContains(instructions, "AMX") && !has("amx_bf16")) return missing("AMX");
  return absl::OkStatus();
}

absl::Status CheckMetadata(const ExportManifest& manifest) {
  const auto metadata = AOTIModelPackageLoader::load_metadata_from_package(manifest.module_path, kModelName);
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  const std::string device = manifest.device == DeviceKind::kCuda ? "cuda" : "cpu";
  if (const std::string found = value("AOTI_DEVICE_KEY"); found != device) {
    return absl::InvalidArgumentError(
        absl::StrCat("was compiled for '", found, "', its manifest says module.device is ", device));
  }
  return manifest.device == DeviceKind::kCpu ? CheckProcessor(value("AOTI_CPU_ISA")) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExportedModule>> LoadAotInductorModule(const ExportManifest& manifest,
                                                                      const ProgramDevice& device, size_t runners) {
  return GuardTorch([&]() -> absl::StatusOr<std::unique_ptr<ExportedModule>> {
    if (auto status = CheckMetadata(manifest); !status.ok()) return status;
    return std::make_unique<AotInductorModule>(manifest, device, runners);
  });
}

}  // namespace tributary
