// DINOv2, with and without registers. The vector is pooler_output: the class token after the last norm. Images of
// another size than the positions were trained for are the rule (518 in config.json, 224 from the processor): the
// positions are brought to it once, here. Sources: Oquab et al. 2023, https://arxiv.org/abs/2304.07193; Darcet et al.
// 2023, https://arxiv.org/abs/2309.16588; tensor names of transformers' Dinov2Model.
#include "absl/strings/str_cat.h"
#include "engine/libtorch/encode/image_families/vision_parts.h"

namespace tributary {
namespace {

constexpr int64_t kMaxRatio = 64;
constexpr int64_t kDefaultRatio = 4;
constexpr int64_t kMaxRegisters = 1024;
constexpr int64_t kDefaultRegisters = 4;

// Two thirds of the plain width, rounded up to a multiple of 8.
int64_t GatedInner(int64_t inner) { return (inner * 2 / 3 + 7) / 8 * 8; }

FeedForward ReadFeedForward(ModuleReader& reader, const std::string& layer, const VisionConfig& config, int64_t inner,
                            bool gated, const at::Tensor& output_scale) {
  const int64_t width = config.hidden_size;
  if (!gated) {
    const LinearWeights up = reader.ReadLinear(layer + "mlp.fc1", inner, width, /*bias=*/true);
    const LinearWeights down = reader.ReadLinear(layer + "mlp.fc2", width, inner, /*bias=*/true);
    return MakeFeedForward(reader, up, down, config.activation, output_scale);
  }
  const int64_t half = GatedInner(inner);
  const LinearWeights in = reader.ReadLinear(layer + "mlp.weights_in", 2 * half, width, /*bias=*/true);
  const LinearWeights out = reader.ReadLinear(layer + "mlp.weights_out", width, half, /*bias=*/true);
  return {.activation = Activation::kSilu,
          .gate = reader.Place(reader.Rows(in, 0, half)),
          .up = reader.Place(reader.Rows(in, half, half)),
          .down = reader.Place(ScaleOutputs(out, output_scale))};
}

}  // namespace

LoadedImageFamily LoadDinov2(const ImageFamilyInput& input) {
  JsonFile& file = *input.config;
  const bool with_registers = file.Text("model_type", "") == "dinov2_with_registers";
  const VisionConfig config = ReadVisionConfig(file, {.patch = with_registers ? 16 : 14});
  const int64_t width = config.hidden_size;
  const int64_t inner = width * file.Count("mlp_ratio", kMaxRatio, kDefaultRatio);
  const int64_t registers = with_registers ? file.Count("num_register_tokens", kMaxRegisters, kDefaultRegisters) : 0;
  const bool qkv_bias = file.Flag("qkv_bias", true);
  const bool gated = file.Flag("use_swiglu_ffn", false);
  if (config.image.height != config.image.width || config.patch.height != config.patch.width) {
    file.Fail("image_size and patch_size must be those of squares");
  }
  if (!file.status().ok()) return file.status();

  ModuleReader reader(input.weights, "embeddings.patch_embeddings.projection.weight", input.type, input.device);
  // The reference's classifier is over twice as many numbers.
  RefuseImageClassifier(reader, input);
  ImageTransformerParts parts;
  ReadVitEmbeddings(reader, config, input, registers,
                    with_registers ? PositionFit::kBicubicAntialias : PositionFit::kBicubic, parts);
  const auto norm = [&](const std::string& name) {
    return reader.LayerNorm(name, width, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  };
  for (int64_t i = 0; i < config.layers && reader.status().ok(); ++i) {
    const std::string layer = absl::StrCat("encoder.layer.", i, ".");
    const at::Tensor attention_scale = reader.Values(layer + "layer_scale1.lambda1", {width});
    const at::Tensor feed_forward_scale = reader.Values(layer + "layer_scale2.lambda1", {width});
    parts.layers.push_back({.attention_norm = norm(layer + "norm1"),
                            .attention = ReadVitAttention(reader, layer, config, qkv_bias, attention_scale),
                            .feed_forward_norm = norm(layer + "norm2"),
                            .feed_forward = ReadFeedForward(reader, layer, config, inner, gated, feed_forward_scale)});
  }
  parts.pooling = std::make_unique<ClassTokenPooling>(norm("layernorm"), PooledLinear());
  return FinishImage<ImageTransformer>(input, width, reader, {}, std::move(parts));
}

}  // namespace tributary
