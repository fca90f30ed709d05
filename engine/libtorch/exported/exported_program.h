// Exported models (AOTInductor packages, TorchScript) as lanes run them: the second door beside encode/text_program and
// encode/image_program, for every model that has no family here. Torch-free. A folder is such a model where it holds a
// tributary.json (exported/export_manifest.h); scripts/export makes one.
//
// An exported module is a program, not data: loading one runs what its maker put into it. Serve only exports you trust.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/image_program.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/libtorch/exported/export_manifest.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

struct ExportedProgramOptions {
  std::string dtype = "auto";  // or the one it was exported with
  ProgramDevice device = {};
  uint64_t max_batch_tokens = 0;  // text; 0: as LoadTextProgram
  size_t max_batch_items = 0;     // 0: what the manifest allows, at most 256 texts; images: as LoadImageProgram
  size_t lanes = 1;               // that will run it at the same time
  std::vector<std::string> op_libraries = {};
};

// Those of a model that runs on the lanes of a device.
ExportedProgramOptions ExportedOptionsFor(const EngineOptions& options, const std::string& dtype,
                                          const ProgramDevice& device);

// What ReadTextModelFolder says of an exported text model, with what its manifest says in place of modules.json.
// Errors: those of both readers.
absl::StatusOr<TextModelFolder> ReadExportedTextFolder(const std::string& folder);

// Loads the module, runs it on its smallest and largest shapes, and compares what comes out with the manifest; then
// runs the lengths that batches are padded to, so that none is first met under load. `text`: of ReadExportedTextFolder.
// Call it on a thread set up by InitTorchThread. A unit is a token; padding counts as computed units. Batches are cut
// into groups of near lengths (exported/padded_groups.h), one call of the module each. Errors: NOT_FOUND /
// INVALID_ARGUMENT naming the file, and what was expected and found: a module that does not load, or
//   takes or gives other shapes or types than its manifest says, or numbers that are not finite, or vectors that depend
//   on padding; FAILED_PRECONDITION an operator library is not configured; RESOURCE_EXHAUSTED out of memory.
absl::StatusOr<LoadedTextProgram> LoadExportedText(const std::string& folder, const TextModelFolder& text,
                                                   const ExportedProgramOptions& options);

struct LoadedExportedImage {
  LoadedImageProgram loaded;
  bool normalise = false;  // the model's own output is L2-normalised
};

// As LoadExportedText. Takes prepared pixels u8 [B, S, S, 3] with S of the manifest; a unit is a pixel.
absl::StatusOr<LoadedExportedImage> LoadExportedImage(const std::string& folder, const ExportedProgramOptions& options);

}  // namespace tributary
