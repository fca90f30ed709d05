// The loaders of the image encoder families, one a file here; chosen by encode/image_families. Each reads its
// config.json, names its tensors and puts the encoder together; what it cannot run as the reference does is an error
// naming the key. A key that is absent has the value that the reference's configuration class gives it: the hub's
// config.json leave such keys out.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/weights/json_file.h"
#include "engine/prepare/image/image_preprocessing.h"

namespace tributary {

class ImageEncoder;
class SafetensorsWeights;

struct ImageFamilyInput {
  JsonFile* config;  // null: the folder has none, which EfficientNet-Lite0's alone may
  const SafetensorsWeights& weights;
  const ImagePreprocessing& preprocessing;
  ComputeType type = ComputeType::kFp32;
  ProgramDevice device;
  bool classifier = false;  // is wanted: an error where the model has none over its vectors
};

using LoadedImageFamily = absl::StatusOr<std::unique_ptr<ImageEncoder>>;

LoadedImageFamily LoadClip(const ImageFamilyInput& input);
LoadedImageFamily LoadConvNext(const ImageFamilyInput& input);  // and V2
LoadedImageFamily LoadDinov2(const ImageFamilyInput& input);    // with and without registers
LoadedImageFamily LoadEfficientNetLite(const ImageFamilyInput& input);
LoadedImageFamily LoadResNet(const ImageFamilyInput& input);
LoadedImageFamily LoadSiglip(const ImageFamilyInput& input);
LoadedImageFamily LoadVit(const ImageFamilyInput& input);

}  // namespace tributary
