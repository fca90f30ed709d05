// The images of a model: preprocessing, encoder and, where it has labels, their vectors, on every device they are
// placed on. Used by model_loader; torch-free.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/libtorch/encode/image_program.h"
#include "engine/libtorch/model_placement.h"
#include "engine/libtorch/text_part.h"
#include "engine/prepare/image/image_preprocessing.h"

namespace tributary {

struct ImagePart {
  ImagePreprocessing preprocessing;
  std::vector<LoadedImageProgram> replicas;              // one a device, in their order
  std::vector<std::unique_ptr<BatchProgram>> fallbacks;  // as TextPart::fallbacks
  std::string revision;                                  // of the weights and the labels
  bool normalise = false;  // the model's own output is L2-normalised, where there are no texts that say it
};

// `folder`: a hub folder, EfficientNet-Lite0's, or one with a tributary.json. `text`: the model's own texts, on
// `text_device`, which labels need; null where it serves none. `placement`: images on at least one device.
// Errors: those of the readers; INVALID_ARGUMENT parts that do not fit together.
absl::StatusOr<ImagePart> LoadImagePart(const EngineOptions& options, const ImageModelOptions& image,
                                        const std::string& folder, const TextPart* text,
                                        const ModelPlacement& placement);

}  // namespace tributary
