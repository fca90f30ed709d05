// One model of the configuration, loaded and warm: preparers, programs and what ListModels says of it. Used by
// engine_factory; torch-free, as everything it puts together has a torch-free door.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/model_placement.h"
#include "engine/pipeline/pipeline.h"

namespace tributary {

// Where the parts of a model are; empty: the model has no such part.
struct PartFolders {
  std::string text;
  std::string image;
};

// text.folder and image.folder, else the parts that `folder` has, by its config.json. Never both empty.
// Errors: NOT_FOUND / INVALID_ARGUMENT where there is nothing to serve.
absl::StatusOr<PartFolders> FindParts(const ModelOptions& model);

// Call it on a thread set up by InitTorchThread.
// Images with labels need the model's own texts: ConSE places them in their space. Texts and images together have
// vectors of one size; both: pairs. What it loads is compared with model.self_check's vectors.
// Errors: those of the parts, with the model's name in front; INVALID_ARGUMENT parts that do not fit together;
//   FAILED_PRECONDITION vectors that differ from self_check's.
absl::StatusOr<ServedModel> LoadModel(const EngineOptions& options, const ModelOptions& model,
                                      const ModelPlacement& placement);

}  // namespace tributary
