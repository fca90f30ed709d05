// ConvNeXt and ConvNeXt V2. The vector is pooler_output: the mean over the last feature map, normed.
// Sources: Liu et al. 2022, https://arxiv.org/abs/2201.03545; Woo et al. 2023, https://arxiv.org/abs/2301.00808; tensor
// names of transformers' ConvNextModel.
#include <ATen/ops/addcmul.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/image_convolution.h"
#include "engine/libtorch/encode/image_encoder.h"
#include "engine/libtorch/encode/image_families/vision_parts.h"
#include "engine/libtorch/encode/image_patches.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {
namespace {

constexpr double kEpsilon = 1e-6;  // of all norms but the last, which alone has a key
constexpr double kLastEpsilon = 1e-12;
constexpr int64_t kPatch = 4;
constexpr int64_t kKernel = 7;
constexpr int64_t kWidening = 4;

// Global response normalisation, V2's: x * (gain * n + 1) + bias, n the channel's norm over the image by the channels'
// mean norm.
struct ResponseNorm {
  at::Tensor gain;  // f32 [1, 1, C]
  at::Tensor bias;  // f32 [1, 1, C]

  // x [B, positions, C] -> the same, in fp32 in between.
  at::Tensor Forward(const at::Tensor& x) const {
    const at::Tensor norms = at::linalg_vector_norm(x, 2, at::IntArrayRef{1}, /*keepdim=*/true, at::kFloat);
    const at::Tensor relative = norms.div(norms.mean({-1}, /*keepdim=*/true).add_(kEpsilon));
    return at::addcmul(bias, x.to(at::kFloat), relative.mul_(gain).add_(1)).to(x.scalar_type());
  }
};

struct Layer {
  Convolution depthwise;
  Norm norm;
  FeedForward feed_forward;
  std::optional<ResponseNorm> response_norm;
};

struct Downsampling {
  Norm norm;
  Convolution convolution;
};

struct Stage {
  std::optional<Downsampling> downsampling;
  std::vector<Layer> layers;
};

struct Parts {
  at::ScalarType type = at::kFloat;
  PatchEmbedding patches;
  Sides grid;  // of patches
  Norm embedding_norm;
  std::vector<Stage> stages;
  Norm final_norm;
};

// Feature maps are rows of channels [B, h, w, C]; their sum runs through all layers in fp32, as in
// encode/image_transformer.
class ConvNext final : public ImageEncoder {
 public:
  ConvNext(const ImageEncoderInfo& info, ImageClassifier classifier, Parts parts)
      : ImageEncoder(info, std::move(classifier)), parts_(std::move(parts)) {}

  at::Tensor Hidden(const at::Tensor& pixels) const override {
    const at::Tensor patches = parts_.patches.Forward(pixels).to(at::kFloat).add_(parts_.patches.offset());
    at::Tensor sum = parts_.embedding_norm.Forward(patches).view(
        {pixels.size(0), parts_.grid.height, parts_.grid.width, patches.size(1)});
    for (const Stage& stage : parts_.stages) {
      if (stage.downsampling) {
        const at::Tensor normed = stage.downsampling->norm.Forward(sum).to(parts_.type);
        sum = RowsOf(stage.downsampling->convolution.Forward(MapOf(normed))).to(at::kFloat);
      }
      for (const Layer& layer : stage.layers) sum = Run(layer, sum);
    }
    return MapOf(sum);
  }

  at::Tensor Pool(const at::Tensor& hidden) const override { return parts_.final_norm.Forward(hidden.mean({2, 3})); }

 private:
  // [B, h, w, C] <-> [B, C, h, w], channels_last: the same memory.
  static at::Tensor MapOf(const at::Tensor& rows) { return rows.permute({0, 3, 1, 2}); }
  static at::Tensor RowsOf(const at::Tensor& map) { return map.permute({0, 2, 3, 1}).contiguous(); }

  at::Tensor Run(const Layer& layer, const at::Tensor& sum) const {
    const int64_t channels = sum.size(3);
    const at::Tensor filtered = RowsOf(layer.depthwise.Forward(MapOf(sum.to(parts_.type))));
    at::Tensor inner = layer.feed_forward.Inner(layer.norm.Forward(filtered).view({-1, channels}));
    if (layer.response_norm) {
      const int64_t wide = inner.size(1);
      inner = layer.response_norm->Forward(inner.view({sum.size(0), -1, wide})).view({-1, wide});
    }
    const at::Tensor rows = sum.view({-1, channels});
    const at::Tensor added = parts_.type == at::kFloat ? layer.feed_forward.down.ForwardAdd(inner, rows)
                                                       : rows.add(layer.feed_forward.down.Forward(inner));
    return added.view(sum.sizes());
  }

  const Parts parts_;
};

struct Config {
  bool second = false;  // V2
  std::vector<int64_t> channels;
  std::vector<int64_t> depths;
  Sides patch;
  double norm_epsilon = 0;
  FeedForwardActivation activation;
  bool layer_scale = false;
};

Config ReadConfig(JsonFile& file) {
  constexpr double kLayerScale = 1e-6;
  Config config;
  config.second = file.Text("model_type", "") == "convnextv2";
  config.channels = ReadCounts(file, "hidden_sizes", {96, 192, 384, 768});
  config.depths = ReadCounts(file, "depths", {3, 3, 9, 3});
  config.patch = ReadSides(file, "patch_size", kPatch);
  config.norm_epsilon = file.Number("layer_norm_eps", kLastEpsilon);
  config.activation = ReadFeedForwardActivation(file, "gelu");
  config.layer_scale = !config.second && file.Number("layer_scale_init_value", kLayerScale) > 0;
  CheckChannels(file);
  const auto stages = static_cast<int64_t>(config.channels.size());
  if (config.channels.size() != config.depths.size() || file.Count("num_stages", stages, stages) != stages) {
    file.Fail(absl::StrCat("num_stages, hidden_sizes (", config.channels.size(), ") and depths (", config.depths.size(),
                           ") differ"));
  }
  // The response norm stands between the two layers that would share the factor.
  if (config.second && config.activation.factor != 1) file.Fail("hidden_act quick_gelu is not supported here");
  return config;
}

Layer ReadLayer(ModuleReader& reader, const std::string& name, int64_t channels, const Sides& sides,
                const Config& config, const ImageFamilyInput& input) {
  const int64_t wide = kWidening * channels;
  const LinearWeights depthwise = reader.ReadKernel(name + "dwconv", {channels, 1, kKernel, kKernel}, /*bias=*/true);
  at::Tensor scale;
  if (config.layer_scale) scale = reader.Values(name + "layer_scale_parameter", {channels});
  const LinearWeights up = reader.ReadLinear(name + "pwconv1", wide, channels, /*bias=*/true);
  const LinearWeights down = reader.ReadLinear(name + "pwconv2", channels, wide, /*bias=*/true);
  Layer layer;
  layer.norm = reader.LayerNorm(name + "layernorm", channels, kEpsilon, /*bias=*/true, /*f32_input=*/false);
  layer.feed_forward = MakeFeedForward(reader, up, down, config.activation, scale);
  if (config.second) {
    const at::Tensor gain = reader.Values(name + "grn.weight", {1, 1, 1, wide});
    const at::Tensor bias = reader.Values(name + "grn.bias", {1, 1, 1, wide});
    if (reader.status().ok()) {
      layer.response_norm = {.gain = OnDevice(gain.select(0, 0), input.device),
                             .bias = OnDevice(bias.select(0, 0), input.device)};
    }
  }
  if (!reader.status().ok()) return layer;
  layer.depthwise = Convolution(depthwise.weight, depthwise.bias,
                                {.in_channels = channels,
                                 .out_channels = channels,
                                 .kernel = kKernel,
                                 .groups = channels,
                                 .height = sides.height,
                                 .width = sides.width},
                                input.type, input.device);
  return layer;
}

// The stage's first half; `sides` become those of its output.
Downsampling ReadDownsampling(ModuleReader& reader, const std::string& name, int64_t in, int64_t out, Sides& sides,
                              const ImageFamilyInput& input) {
  ConvolutionShape shape{.in_channels = in,
                         .out_channels = out,
                         .kernel = 2,
                         .stride = 2,
                         .height = sides.height,
                         .width = sides.width,
                         .padding = ConvolutionShape::Padding::kNone};
  Downsampling downsampling;
  downsampling.norm = reader.LayerNorm(name + "0", in, kEpsilon, /*bias=*/true, /*f32_input=*/true);
  const LinearWeights weights = reader.ReadKernel(name + "1", {out, in, shape.kernel, shape.kernel}, /*bias=*/true);
  sides = {.height = sides.height / 2, .width = sides.width / 2};
  if (reader.status().ok()) {
    downsampling.convolution = Convolution(weights.weight, weights.bias, shape, input.type, input.device);
  }
  return downsampling;
}

}  // namespace

LoadedImageFamily LoadConvNext(const ImageFamilyInput& input) {
  JsonFile& file = *input.config;
  const Config config = ReadConfig(file);
  Parts parts;
  parts.type = TorchType(input.type);
  parts.grid = PatchGrid(file, SidesOf(input.preprocessing), config.patch);
  if (!file.status().ok()) return file.status();

  ModuleReader reader(input.weights, "embeddings.patch_embeddings.weight", input.type, input.device);
  const LinearWeights patches = reader.ReadKernel(
      "embeddings.patch_embeddings", {config.channels[0], 3, config.patch.height, config.patch.width}, /*bias=*/true);
  parts.embedding_norm = reader.LayerNorm("embeddings.layernorm", config.channels[0], kEpsilon, /*bias=*/true,
                                          /*f32_input=*/true);
  Sides sides = parts.grid;
  int64_t channels = config.channels[0];
  for (size_t i = 0; i < config.channels.size(); ++i) {
    const std::string name = absl::StrCat("encoder.stages.", i, ".");
    Stage stage;
    if (i > 0) {
      if (sides.height < 2 || sides.width < 2) {
        file.Fail(absl::StrCat("images of ", input.preprocessing.height, " x ", input.preprocessing.width,
                               " are too small for ", config.channels.size(), " stages"));
        return file.status();
      }
      stage.downsampling =
          ReadDownsampling(reader, name + "downsampling_layer.", channels, config.channels[i], sides, input);
    }
    channels = config.channels[i];
    for (int64_t layer = 0; layer < config.depths[i] && reader.status().ok(); ++layer) {
      stage.layers.push_back(
          ReadLayer(reader, absl::StrCat(name, "layers.", layer, "."), channels, sides, config, input));
    }
    parts.stages.push_back(std::move(stage));
  }
  parts.final_norm = reader.LayerNorm("layernorm", channels, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
  ImageClassifier classifier = ReadImageClassifier(reader, "classifier", channels, input);
  if (!reader.status().ok()) return reader.status();
  parts.patches = PatchEmbedding(patches.weight, patches.bias, input.preprocessing.pixels, input.type, input.device);
  return FinishImage<ConvNext>(input, channels, reader, std::move(classifier), std::move(parts));
}

}  // namespace tributary
