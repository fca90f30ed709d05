#include "engine/libtorch/exported/exported_module.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tributary {

at::ScalarType TorchElementType(ElementType type) {
  static constexpr at::ScalarType kTypes[] = {at::kByte, at::kInt, at::kLong, at::kFloat, at::kHalf, at::kBFloat16};
  return kTypes[static_cast<size_t>(type)];
}

absl::StatusOr<std::unique_ptr<ExportedModule>> LoadExportedModule(const ExportManifest& manifest,
                                                                   const ProgramDevice& device, size_t runners) {
  auto module = manifest.type == ModuleType::kAotInductor ? LoadAotInductorModule(manifest, device, runners)
                                                          : LoadTorchScriptModule(manifest, device);
  if (module.ok() || module.status().code() == absl::StatusCode::kResourceExhausted) return module;
  const std::string libraries = manifest.libraries.empty() ? "none" : absl::StrJoin(manifest.libraries, ", ");
  return absl::InvalidArgumentError(absl::StrCat(manifest.module_path, " does not load (libraries of ", manifest.path,
                                                 ": ", libraries, "): ", module.status().message()));
}

}  // namespace tributary
