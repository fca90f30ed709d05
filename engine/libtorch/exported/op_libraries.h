// Shared libraries with operators of their own (Torch-TensorRT's runtime, a customer's kernels) that exported modules
// use. Torch-free: such a library registers its operators with LibTorch when it is loaded.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tributary {

// Loads those of `configured` (paths, the option op_libraries) whose file names are in `needed` (a manifest's
// libraries; `manifest_path` is for messages). Loading a shared library runs its code: only paths of the server's own
// configuration are ever opened, a model folder can but name them. A library stays loaded for the process's life, as
// its operators stay registered; loading it again does nothing.
// Errors: FAILED_PRECONDITION a needed name is not configured; INVALID_ARGUMENT the loader refuses it, with its words.
absl::Status LoadOpLibraries(const std::vector<std::string>& needed, const std::vector<std::string>& configured,
                             const std::string& manifest_path);

}  // namespace tributary
