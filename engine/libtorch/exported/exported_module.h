// An exported module as the programs call it: tensors in, the one output its manifest names. For sources with torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/exported/export_manifest.h"

namespace tributary {

// Thread-safety: Forward from any thread; under InferenceMode; on CUDA it enqueues on the current stream.
// Errors of Forward: what LibTorch or the module throws, and c10::Error where the output the manifest names is not
// there; the program guards.
class ExportedModule {
 public:
  virtual ~ExportedModule() = default;
  virtual at::Tensor Forward(const std::vector<at::Tensor>& inputs) const = 0;
};

// An AOTInductor package (.pt2): a zip with a shared library, which LibTorch unpacks into a folder below /tmp, loads,
// and removes with the module. `runners`: how many calls can be under way at once; more wait for each other.
absl::StatusOr<std::unique_ptr<ExportedModule>> LoadAotInductorModule(const ExportManifest& manifest,
                                                                      const ProgramDevice& device, size_t runners);

// A TorchScript file, in eval mode, as it was saved.
absl::StatusOr<std::unique_ptr<ExportedModule>> LoadTorchScriptModule(const ExportManifest& manifest,
                                                                      const ProgramDevice& device);

// By the manifest's type. Errors: INVALID_ARGUMENT with the file's path and LibTorch's words.
absl::StatusOr<std::unique_ptr<ExportedModule>> LoadExportedModule(const ExportManifest& manifest,
                                                                   const ProgramDevice& device, size_t runners);

at::ScalarType TorchElementType(ElementType type);

}  // namespace tributary
