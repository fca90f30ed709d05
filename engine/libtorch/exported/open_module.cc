#include "engine/libtorch/exported/open_module.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/files/mapped_file.h"
#include "engine/libtorch/exported/op_libraries.h"
#include "engine/libtorch/weights/content_hash.h"

namespace tributary {

absl::StatusOr<std::shared_ptr<const ExportedModule>> OpenModule(const ExportManifest& manifest,
                                                                 const ExportedProgramOptions& options) {
  if (manifest.device != options.device.kind) {
    const bool cpu = manifest.device == DeviceKind::kCpu;
    return absl::InvalidArgumentError(absl::StrCat(manifest.path, ": exported for ", cpu ? "cpu" : "cuda",
                                                   ", but the lanes run on ", cpu ? "cuda" : "cpu"));
  }
  const std::string type(ComputeTypeName(manifest.dtype));
  if (options.dtype != "auto" && options.dtype != type) {
    return absl::InvalidArgumentError(absl::StrCat(manifest.path, ": exported in ", type, ", but dtype ", options.dtype,
                                                   " is asked for (auto takes it as it is)"));
  }
  if (auto status = LoadOpLibraries(manifest.libraries, options.op_libraries, manifest.path); !status.ok()) {
    return status;
  }
  auto module = LoadExportedModule(manifest, options.device, std::max<size_t>(options.lanes, 1));
  if (!module.ok()) return module.status();
  return std::shared_ptr<const ExportedModule>(*std::move(module));
}

absl::StatusOr<std::string> RevisionOf(const ExportManifest& manifest) {
  ContentHash hash;
  for (const std::string& path : {manifest.module_path, manifest.path}) {
    auto file = MappedFile::Open(path);
    if (!file.ok()) return file.status();
    hash.Add((*file)->bytes());
  }
  return hash.Hex();
}

void CheckOutput(const ExportManifest& manifest, const at::Tensor& output, at::IntArrayRef shape) {
  TORCH_CHECK(output.defined(), "the output is no tensor");
  TORCH_CHECK(output.sizes() == shape, "the output has the shape ", output.sizes(), ", expected is ", shape);
  TORCH_CHECK(output.scalar_type() == TorchElementType(manifest.output.type), "the output is ", output.scalar_type(),
              ", output.dtype says ", ElementTypeName(manifest.output.type));
}

}  // namespace tributary
