// Which image encoder families there are, by what their config.json says. The one place that lists them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/libtorch/encode/image_families/families.h"

namespace tributary {

struct ImageFamily {
  std::string_view model_type;
  std::string_view name;      // for people
  std::string_view models;    // some that are used
  std::string_view verified;  // what its goldens were made with
  bool int8;                  // false: made of convolutions, which have no int8 products
  LoadedImageFamily (*load)(const ImageFamilyInput& input);
};

// By model_type.
std::span<const ImageFamily> ImageFamilies();

// That of the folder's config.json: by its model_type, or by timm's architecture. A folder without config.json is
// EfficientNet-Lite0's where its weights have that package's names.
absl::StatusOr<const ImageFamily*> ImageFamilyOf(const std::string& folder, const SafetensorsWeights& weights);

struct ImageEncoderOptions {
  ImagePreprocessing preprocessing = {};
  ComputeType type = ComputeType::kFp32;
  ProgramDevice device = {};
  bool classifier = false;  // load the model's own classifier too; an error where it has none
};

// The encoder of a folder with config.json and weights.
// Errors: NOT_FOUND / INVALID_ARGUMENT naming file and key, or file and tensor; a config.json whose model would be run
// differently from its reference is an error, never ignored. LibTorch's exceptions: the caller guards.
absl::StatusOr<std::unique_ptr<ImageEncoder>> LoadImageEncoder(const std::string& folder,
                                                               const SafetensorsWeights& weights,
                                                               const ImageEncoderOptions& options);

}  // namespace tributary
