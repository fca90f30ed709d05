// ViT. One rule for the vector: the model's pooler_output where the folder has the pooler's weights, as AutoModel gives
// it; else the class token after the last norm. (Classifiers on the hub come without a pooler: AutoModel would make one
// of random numbers up.)
// Source: Dosovitskiy et al. 2020, https://arxiv.org/abs/2010.11929; tensor names of transformers' ViTModel.
#include "absl/strings/str_cat.h"
#include "engine/libtorch/encode/image_families/vision_parts.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {
namespace {

constexpr int64_t kMaxDimensions = int64_t{1} << 20;
constexpr int64_t kDefaultInner = 3072;

}  // namespace

LoadedImageFamily LoadVit(const ImageFamilyInput& input) {
  JsonFile& file = *input.config;
  const VisionConfig config = ReadVisionConfig(file, {.norm_epsilon = 1e-12});
  const int64_t width = config.hidden_size;
  const int64_t inner = file.Count("intermediate_size", kMaxDimensions, kDefaultInner);
  const int64_t pooled = file.Count("pooler_output_size", kMaxDimensions, width);
  const bool qkv_bias = file.Flag("qkv_bias", true);
  AllowText(file, "pooler_act", {"tanh"});
  CheckImageSize(file, config, input.preprocessing);
  if (!file.status().ok()) return file.status();

  ModuleReader reader(input.weights, "embeddings.patch_embeddings.projection.weight", input.type, input.device);
  const auto norm = [&](const std::string& name) {
    return reader.LayerNorm(name, width, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  };
  ImageTransformerParts parts;
  ReadVitEmbeddings(reader, config, input, /*registers=*/0, PositionFit::kSameSize, parts);
  for (int64_t i = 0; i < config.layers && reader.status().ok(); ++i) {
    const std::string layer = absl::StrCat("encoder.layer.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in) {
      return reader.ReadLinear(layer + name, out, in, /*bias=*/true);
    };
    parts.layers.push_back({.attention_norm = norm(layer + "layernorm_before"),
                            .attention = ReadVitAttention(reader, layer, config, qkv_bias),
                            .feed_forward_norm = norm(layer + "layernorm_after"),
                            .feed_forward = MakeFeedForward(reader, linear("intermediate.dense", inner, width),
                                                            linear("output.dense", width, inner), config.activation)});
  }
  Norm last_norm = norm("layernorm");
  PooledLinear pooler;
  if (reader.Has("pooler.dense.weight")) {
    pooler = {.weight = OnDevice(reader.Values("pooler.dense.weight", {pooled, width}), input.device),
              .bias = OnDevice(reader.Values("pooler.dense.bias", {pooled}), input.device),
              .tanh = true};
  }
  const int64_t dimensions = pooler.weight.defined() ? pooled : width;
  ImageClassifier classifier;
  if (pooler.weight.defined()) {
    RefuseImageClassifier(reader, input);
  } else {
    classifier = ReadImageClassifier(reader, "classifier", width, input);
  }
  parts.pooling = std::make_unique<ClassTokenPooling>(std::move(last_norm), std::move(pooler));
  return FinishImage<ImageTransformer>(input, dimensions, reader, std::move(classifier), std::move(parts));
}

}  // namespace tributary
