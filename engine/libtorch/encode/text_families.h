// Which text encoder families there are, by the model_type of their config.json. The one place that lists them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/libtorch/encode/families/families.h"

namespace tributary {

struct TextFamily {
  std::string_view model_type;
  std::string_view name;      // for people
  std::string_view models;    // some that are used
  std::string_view verified;  // what its goldens were made with
  bool fp16;                  // false: its activations leave the range of fp16
  LoadedFamily (*load)(const FamilyInput& input);
};

// SigLIP 2 in its form of variable resolution, whose image side takes as many patches as a picture needs.
inline constexpr std::string_view kNaflexModelType = "siglip2";
inline constexpr std::string_view kNaflexAdvice = " (NaFlex); SigLIP 2 of one size is, its model_type is siglip";

// By model_type.
std::span<const TextFamily> TextFamilies();

// That of the folder's config.json.
absl::StatusOr<const TextFamily*> TextFamilyOf(const std::string& folder);

// The encoder of a folder with config.json and weights, for the type and device.
// Errors: NOT_FOUND / INVALID_ARGUMENT naming file and key, or file and tensor; a config.json whose model would be run
// differently from its reference is an error, never ignored. LibTorch's exceptions: the caller guards.
absl::StatusOr<std::unique_ptr<TextEncoder>> LoadTextEncoder(const std::string& folder,
                                                             const SafetensorsWeights& weights, ComputeType type,
                                                             const ProgramDevice& device);

}  // namespace tributary
