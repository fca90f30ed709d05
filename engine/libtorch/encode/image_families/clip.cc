// CLIP's vision tower, of a whole model or alone. The vector is image_embeds where the folder has the projection, else
// pooler_output: the class token after post_layernorm.
// Source: Radford et al. 2021, https://arxiv.org/abs/2103.00020; tensor names of transformers' CLIPModel.
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/image_families/vision_parts.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {
namespace {

constexpr int64_t kMaxDimensions = int64_t{1} << 20;
constexpr int64_t kDefaultInner = 3072;
constexpr int64_t kDefaultProjection = 512;

constexpr char kProjection[] = "visual_projection.weight";

// An older vision_config_dict takes the place of vision_config, as in the reference.
const char* VisionSection(const JsonFile& file) {
  return file.Has("vision_config_dict") ? "vision_config_dict" : "vision_config";
}

}  // namespace

LoadedImageFamily LoadClip(const ImageFamilyInput& input) {
  const bool whole = input.config->Text("model_type", "") == "clip";
  auto section = whole ? input.config->Section(VisionSection(*input.config)) : absl::StatusOr<JsonFile>(*input.config);
  if (!section.ok()) return section.status();
  JsonFile& file = *section;
  const VisionConfig config = ReadVisionConfig(file, {.patch = 32, .norm_epsilon = 1e-5, .activation = "quick_gelu"});
  const int64_t inner = file.Count("intermediate_size", kMaxDimensions, kDefaultInner);
  const int64_t projection = input.config->Count("projection_dim", kMaxDimensions, kDefaultProjection);
  CheckImageSize(file, config, input.preprocessing);
  const Sides grid = PatchGrid(file, config.image, config.patch);
  if (!file.status().ok()) return file.status();
  if (!input.config->status().ok()) return input.config->status();

  const int64_t width = config.hidden_size;
  ModuleReader reader(input.weights, "embeddings.patch_embedding.weight", input.type, input.device);
  const auto norm = [&](const char* name) {
    return reader.LayerNorm(name, width, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  };
  RefuseImageClassifier(reader, input);
  const LinearWeights patches = reader.ReadKernel("embeddings.patch_embedding",
                                                  {width, 3, config.patch.height, config.patch.width}, /*bias=*/false);
  const at::Tensor class_token = reader.Values("embeddings.class_embedding", {width});
  const at::Tensor positions =
      reader.Values("embeddings.position_embedding.weight", {1 + grid.height * grid.width, width});
  ImageTransformerParts parts;
  parts.type = TorchType(input.type);
  parts.embedding_norm = norm("pre_layrnorm");
  parts.layers = ReadClipLayers(reader, config, inner);
  Norm last_norm = norm("post_layernorm");
  // It stands beside the tower, whatever is before the tower's names.
  PooledLinear projected;
  if (whole || input.weights.PrefixOf(kProjection).ok()) {
    ModuleReader beside(input.weights, kProjection, input.type, input.device);
    projected.weight = OnDevice(beside.Values(kProjection, {projection, width}), input.device);
    if (!beside.status().ok()) reader.Fail(beside.status());
  }
  if (!reader.status().ok()) return reader.status();

  parts.patches = PatchEmbedding(patches.weight, patches.bias, input.preprocessing.pixels, input.type, input.device);
  parts.first_tokens = OnDevice(class_token.unsqueeze(0).add(positions.narrow(0, 0, 1)), input.device);
  parts.positions = OnDevice(positions.narrow(0, 1, positions.size(0) - 1), input.device).add_(parts.patches.offset());
  const int64_t dimensions = projected.weight.defined() ? projection : width;
  const at::Tensor uncounted = projected.weight;
  parts.pooling = std::make_unique<ClassTokenPooling>(std::move(last_norm), std::move(projected));
  return FinishImage<ImageTransformer>(input, dimensions, reader, {}, std::move(parts), {uncounted});
}

}  // namespace tributary
