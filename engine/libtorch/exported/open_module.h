// What loading a text and an image module has in common. For sources with torch.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/libtorch/exported/export_manifest.h"
#include "engine/libtorch/exported/exported_module.h"
#include "engine/libtorch/exported/exported_program.h"

namespace tributary {

// Loads the operator libraries and the module. Errors: INVALID_ARGUMENT also where the export is for another device or
// type than the options ask for.
absl::StatusOr<std::shared_ptr<const ExportedModule>> OpenModule(const ExportManifest& manifest,
                                                                 const ExportedProgramOptions& options);

// Content hash of the module file and the manifest.
absl::StatusOr<std::string> RevisionOf(const ExportManifest& manifest);

// Throws c10::Error naming both where `output` is not of the manifest's type or not of `shape`.
void CheckOutput(const ExportManifest& manifest, const at::Tensor& output, at::IntArrayRef shape);

}  // namespace tributary
