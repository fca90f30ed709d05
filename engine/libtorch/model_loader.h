// One model of the configuration, loaded and warm: preparers, programs and what ListModels says of it. Used by
// engine_factory; torch-free, as everything it puts together has a torch-free door.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/pipeline/pipeline.h"

namespace tributary {

// A device that has lanes.
struct PlacedDevice {
  ProgramDevice device;
  size_t index = 0;  // in PipelineParts::devices
};

// Where the encoders of a model are to run: a replica on each device of their list. Not empty for what the model
// serves; text, which images need, is placed always. Index: Modality.
using ModelPlacement = std::array<std::vector<PlacedDevice>, kModalityCount>;

// Call it on a thread set up by InitTorchThread.
// Images need the model's own text encoder: ConSE places them in its space. Pairs need both.
// Errors: those of the parts, with the model's name in front; INVALID_ARGUMENT parts that do not fit together.
absl::StatusOr<ServedModel> LoadModel(const EngineOptions& options, const ModelOptions& model,
                                      const ModelPlacement& placement);

}  // namespace tributary
