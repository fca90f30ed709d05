// What a model's configuration and its folder say of shorter vectors and prompts, put together. Used by model_loader.
#pragma once

#include "absl/status/status.h"
#include "engine/api/options.h"
#include "engine/api/types.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

// Fills in `info`: matryoshka_dimensions and default_prompt. The configuration's word counts before the folder's.
// info.dimensions must be set. `folder`: of the texts; empty where the model takes none.
// Errors: INVALID_ARGUMENT a shorter size that is larger than the vectors; a default prompt the folder does not have.
absl::Status SetOutputs(const ModelOptions& options, const TextModelFolder& folder, ModelInfo* info);

}  // namespace tributary
