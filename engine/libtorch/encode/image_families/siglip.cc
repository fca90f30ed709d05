// SigLIP's vision tower (SigLIP 2's too, where images have one size), of a whole model or alone. No class token. The
// vector is pooler_output, what the attention pooling head gives; of a model without the head (vision_use_head false)
// it is the mean of the tokens after post_layernorm, which its classifier takes. Sources: Zhai et al. 2023,
// https://arxiv.org/abs/2303.15343; Tschannen et al. 2025, https://arxiv.org/abs/2502.14786; tensor names of
// transformers' SiglipModel.
#include <ATen/ops/linear.h>

#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/image_families/vision_parts.h"

namespace tributary {
namespace {

constexpr int64_t kMaxDimensions = int64_t{1} << 20;
constexpr int64_t kDefaultInner = 3072;

std::unique_ptr<const ImagePooling> ReadAttentionPooling(ModuleReader& reader, const VisionConfig& config,
                                                         int64_t inner, const ImageFamilyInput& input,
                                                         Norm token_norm) {
  const int64_t width = config.hidden_size;
  const at::Tensor probe = reader.Values("head.probe", {1, 1, width});
  const at::Tensor weight = reader.Values("head.attention.in_proj_weight", {3 * width, width});
  const at::Tensor bias = reader.Values("head.attention.in_proj_bias", {3 * width});
  const LinearWeights output = reader.ReadLinear("head.attention.out_proj", width, width, /*bias=*/true);
  const LinearWeights up = reader.ReadLinear("head.mlp.fc1", inner, width, /*bias=*/true);
  const LinearWeights down = reader.ReadLinear("head.mlp.fc2", width, inner, /*bias=*/true);
  Norm norm = reader.LayerNorm("head.layernorm", width, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  if (!reader.status().ok()) return nullptr;
  const LinearWeights in_projection{.weight = weight, .bias = bias};
  const LinearWeights query = reader.Rows(in_projection, 0, width);
  AttentionPoolingParts parts;
  parts.type = TorchType(input.type);
  parts.heads = config.heads;
  parts.token_norm = std::move(token_norm);
  parts.query = at::linear(probe.view({1, width}), query.weight, query.bias)
                    .view({config.heads, 1, config.head_size})
                    .to(TorchDevice(input.device), parts.type);
  parts.key_value = reader.Place(reader.Rows(in_projection, width, 2 * width));
  parts.output = reader.Place(output);
  parts.feed_forward_norm = std::move(norm);
  parts.feed_forward = MakeFeedForward(reader, up, down, config.activation);
  return std::make_unique<AttentionPooling>(std::move(parts));
}

}  // namespace

LoadedImageFamily LoadSiglip(const ImageFamilyInput& input) {
  auto section = input.config->Text("model_type", "") == "siglip" ? input.config->Section("vision_config")
                                                                  : absl::StatusOr<JsonFile>(*input.config);
  if (!section.ok()) return section.status();
  JsonFile& file = *section;
  const VisionConfig config = ReadVisionConfig(file, {.activation = "gelu_pytorch_tanh"});
  const int64_t inner = file.Count("intermediate_size", kMaxDimensions, kDefaultInner);
  const bool head = file.Flag("vision_use_head", true);
  CheckImageSize(file, config, input.preprocessing);
  const Sides grid = PatchGrid(file, config.image, config.patch);
  if (!file.status().ok()) return file.status();

  const int64_t width = config.hidden_size;
  ModuleReader reader(input.weights, "embeddings.patch_embedding.weight", input.type, input.device);
  RefuseImageClassifier(reader, input);
  const LinearWeights patches = reader.ReadKernel("embeddings.patch_embedding",
                                                  {width, 3, config.patch.height, config.patch.width}, /*bias=*/true);
  const at::Tensor positions = reader.Values("embeddings.position_embedding.weight", {grid.height * grid.width, width});
  ImageTransformerParts parts;
  parts.type = TorchType(input.type);
  parts.layers = ReadClipLayers(reader, config, inner);
  Norm norm = reader.LayerNorm("post_layernorm", width, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  if (head) {
    parts.pooling = ReadAttentionPooling(reader, config, inner, input, std::move(norm));
  } else {
    parts.pooling = std::make_unique<MeanTokenPooling>(std::move(norm));
  }
  if (!reader.status().ok()) return reader.status();
  parts.patches = PatchEmbedding(patches.weight, patches.bias, input.preprocessing.pixels, input.type, input.device);
  parts.positions = OnDevice(positions, input.device).add_(parts.patches.offset());
  return FinishImage<ImageTransformer>(input, width, reader, {}, std::move(parts));
}

}  // namespace tributary
