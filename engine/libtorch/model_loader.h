// One model of the configuration, loaded and warm: preparers, programs and what ListModels says of it. Used by
// engine_factory; torch-free, as everything it puts together has a torch-free door.
#pragma once

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/pipeline/pipeline.h"

namespace tributary {

// `model` is one of `options.models`. Call it on a thread set up by InitTorchThread.
// What it serves: the text and image part of `folder`, or of text.folder and image.folder. Images with labels need the
// model's own texts: ConSE places them in their space. Texts and images together have vectors of one size; both: pairs.
// Errors: those of the parts, with the model's name in front; INVALID_ARGUMENT parts that do not fit together.
absl::StatusOr<ServedModel> LoadModel(const EngineOptions& options, const ModelOptions& model,
                                      const ProgramDevice& device);

}  // namespace tributary
