// What --check-model says of a model folder: what it is, what of it is used, how large, and whether it works.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tributary {

// Loads the folder as models[].folder does, with default options on this machine, and embeds a few texts and pictures:
// every vector must be finite, the same alone and in a batch (cosine 0.9999), and as near to fp32 as the type the model
// runs in allows (0.999). "key  value" lines, in the order a reader asks. Takes as long as loading the model twice
// where the type is not fp32. Errors: those of loading, which name file and key or tensor; FAILED_PRECONDITION where a
// vector is wrong.
absl::StatusOr<std::string> CheckModelFolder(const std::string& folder);

}  // namespace tributary
