#include "engine/libtorch/exported/op_libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tributary {

absl::Status LoadOpLibraries(const std::vector<std::string>& needed, const std::vector<std::string>& configured,
                             const std::string& manifest_path) {
  for (const std::string& name : needed) {
    const auto found = std::find_if(configured.begin(), configured.end(), [&](const std::string& path) {
      return std::filesystem::path(path).filename() == name;
    });
    if (found == configured.end()) {
      return absl::FailedPreconditionError(absl::StrCat(manifest_path, ": module.libraries needs '", name,
                                                        "', which is not in the server's op_libraries (",
                                                        absl::StrJoin(configured, ", "), ")"));
    }
    // Local: operators are found through LibTorch's registry, not by symbol.
    if (dlopen(found->c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      const char* const why = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
      return absl::InvalidArgumentError(absl::StrCat("op_libraries: cannot load ", *found, ": ", why));
    }
  }
  return absl::OkStatus();
}

}  // namespace tributary
