#include "engine/libtorch/output_options.h"

#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tributary {
namespace {

absl::Status SetMatryoshkaDimensions(const ModelOptions& options, const TextModelFolder& folder, ModelInfo& info) {
  std::set<int64_t> sizes(options.matryoshka_dimensions.begin(), options.matryoshka_dimensions.end());
  if (sizes.empty()) sizes.insert(folder.matryoshka_dimensions.begin(), folder.matryoshka_dimensions.end());
  sizes.erase(info.dimensions);  // folders list the full size too
  if (!sizes.empty() && *sizes.rbegin() > info.dimensions) {
    return absl::InvalidArgumentError(absl::StrCat("matryoshka_dimensions has ", *sizes.rbegin(), ", the vectors have ",
                                                   info.dimensions, " numbers"));
  }
  info.matryoshka_dimensions.assign(sizes.begin(), sizes.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status SetOutputs(const ModelOptions& options, const TextModelFolder& folder, ModelInfo* info) {
  const std::string& chosen = options.text.default_prompt;
  if (!chosen.empty() && !folder.prompts.contains(chosen)) {
    auto append_name = [](std::string* out, const auto& prompt) { out->append(prompt.first); };
    return absl::InvalidArgumentError(absl::StrCat(
        "text.default_prompt is '", chosen, "', ",
        folder.prompts.empty()
            ? "the folder has no prompts"
            : absl::StrCat("the folder's prompts are ", absl::StrJoin(folder.prompts, ", ", append_name))));
  }
  info->default_prompt = chosen.empty() ? folder.default_prompt : chosen;
  return SetMatryoshkaDimensions(options, folder, *info);
}

}  // namespace tributary
