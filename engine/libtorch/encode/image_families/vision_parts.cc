#include "engine/libtorch/encode/image_families/vision_parts.h"

#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/upsample_bicubic2d.h>

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"

namespace tributary {
namespace {

// positions f32 [rows * columns of config.image, H] -> [rows * columns of `grid`, H].
at::Tensor FitPositions(const at::Tensor& positions, const VisionConfig& config, const Sides& grid, PositionFit fit) {
  const int64_t rows = config.image.height / config.patch.height;
  const int64_t columns = config.image.width / config.patch.width;
  // The reference leaves them alone only where the images are square as well.
  if (fit == PositionFit::kSameSize || (grid == Sides{rows, columns} && grid.height == grid.width)) return positions;
  const at::Tensor square = positions.view({1, rows, columns, -1}).permute({0, 3, 1, 2});
  const at::Tensor fitted = fit == PositionFit::kBicubic
                                ? at::upsample_bicubic2d(square, {grid.height, grid.width}, /*align_corners=*/false)
                                : at::_upsample_bicubic2d_aa(square, {grid.height, grid.width},
                                                             /*align_corners=*/false);
  return fitted.permute({0, 2, 3, 1}).reshape({grid.height * grid.width, -1});
}

}  // namespace

LinearWeights ScaleOutputs(const LinearWeights& weights, const at::Tensor& factors) {
  if (!weights.weight.defined() || !factors.defined()) return weights;
  // In double: one rounding, to the compute type.
  const at::Tensor exact = factors.to(at::kDouble);
  return {.weight = weights.weight.to(at::kDouble).mul(exact.unsqueeze(1)),
          .bias = weights.bias.defined() ? weights.bias.to(at::kDouble).mul(exact) : at::Tensor()};
}

FeedForward MakeFeedForward(const ModuleReader& reader, const LinearWeights& up, const LinearWeights& down,
                            const FeedForwardActivation& activation, const at::Tensor& output_scale) {
  FeedForward half;
  half.activation = activation.activation;
  if (!reader.status().ok()) return half;
  LinearWeights scaled_up = up;
  LinearWeights scaled_down = ScaleOutputs(down, output_scale);
  if (activation.factor != 1) {
    scaled_up = {.weight = up.weight.to(at::kDouble).mul(activation.factor),
                 .bias = up.bias.to(at::kDouble).mul(activation.factor)};
    scaled_down.weight = scaled_down.weight.to(at::kDouble).div(activation.factor);
  }
  half.up = reader.Place(scaled_up);
  half.down = reader.Place(scaled_down);
  return half;
}

AttentionOptions WholeImageAttention(const VisionConfig& config) {
  return {.heads = config.heads,
          .key_value_heads = config.heads,
          .head_size = config.head_size,
          .scale = 1 / std::sqrt(static_cast<double>(config.head_size)),
          .bias = {}};
}

at::Tensor OnDevice(const at::Tensor& values, const ProgramDevice& device) {
  if (!values.defined()) return values;
  return values.to(TorchDevice(device), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}

std::vector<ImageTransformerLayer> ReadClipLayers(ModuleReader& reader, const VisionConfig& config,
                                                  int64_t intermediate_size) {
  const int64_t width = config.hidden_size;
  std::vector<ImageTransformerLayer> layers;
  for (int64_t i = 0; i < config.layers && reader.status().ok(); ++i) {
    const std::string layer = absl::StrCat("encoder.layers.", i, ".");
    const auto linear = [&](const char* name, int64_t out, int64_t in) {
      return reader.ReadLinear(layer + name, out, in, /*bias=*/true);
    };
    const auto norm = [&](const char* name) {
      return reader.LayerNorm(layer + name, width, config.norm_epsilon, /*bias=*/true, /*f32_input=*/true);
    };
    layers.push_back({.attention_norm = norm("layer_norm1"),
                      .attention = {.qkv = reader.Place(reader.Join({linear("self_attn.q_proj", width, width),
                                                                     linear("self_attn.k_proj", width, width),
                                                                     linear("self_attn.v_proj", width, width)})),
                                    .output = reader.Place(linear("self_attn.out_proj", width, width)),
                                    .options = WholeImageAttention(config),
                                    .head_norm = {}},
                      .feed_forward_norm = norm("layer_norm2"),
                      .feed_forward = MakeFeedForward(reader, linear("mlp.fc1", intermediate_size, width),
                                                      linear("mlp.fc2", width, intermediate_size), config.activation)});
  }
  return layers;
}

SelfAttention ReadVitAttention(ModuleReader& reader, const std::string& layer, const VisionConfig& config,
                               bool qkv_bias, const at::Tensor& output_scale) {
  const int64_t width = config.hidden_size;
  const auto part = [&](const char* name) {
    return reader.ReadLinear(absl::StrCat(layer, "attention.attention.", name), width, width, qkv_bias);
  };
  return {.qkv = reader.Place(reader.Join({part("query"), part("key"), part("value")})),
          .output = reader.Place(ScaleOutputs(
              reader.ReadLinear(layer + "attention.output.dense", width, width, /*bias=*/true), output_scale)),
          .options = WholeImageAttention(config),
          .head_norm = {}};
}

void ReadVitEmbeddings(ModuleReader& reader, const VisionConfig& config, const ImageFamilyInput& input,
                       int64_t registers, PositionFit fit, ImageTransformerParts& parts) {
  const int64_t width = config.hidden_size;
  const Sides trained = PatchGrid(*input.config, config.image, config.patch);
  const Sides grid = PatchGrid(*input.config, SidesOf(input.preprocessing), config.patch);
  if (!input.config->status().ok()) reader.Fail(input.config->status());
  const LinearWeights patches = reader.ReadKernel("embeddings.patch_embeddings.projection",
                                                  {width, 3, config.patch.height, config.patch.width}, /*bias=*/true);
  const at::Tensor class_token = reader.Values("embeddings.cls_token", {1, 1, width});
  const at::Tensor positions =
      reader.Values("embeddings.position_embeddings", {1, 1 + trained.height * trained.width, width});
  at::Tensor register_tokens;
  if (registers > 0) register_tokens = reader.Values("embeddings.register_tokens", {1, registers, width});
  if (!reader.status().ok()) return;

  parts.type = TorchType(input.type);
  parts.patches = PatchEmbedding(patches.weight, patches.bias, input.preprocessing.pixels, input.type, input.device);
  const at::Tensor table = positions.select(0, 0);
  at::Tensor first = class_token.select(0, 0).add(table.narrow(0, 0, 1));
  // Registers have no position.
  if (registers > 0) first = at::cat({first, register_tokens.select(0, 0)});
  parts.first_tokens = OnDevice(first, input.device);
  const at::Tensor fitted = FitPositions(table.narrow(0, 1, table.size(0) - 1), config, grid, fit);
  parts.positions = OnDevice(fitted, input.device).add_(parts.patches.offset());
}

ImageClassifier ReadImageClassifier(ModuleReader& reader, const std::string& name, int64_t dimensions,
                                    const ImageFamilyInput& input) {
  if (!input.classifier || !reader.status().ok()) return {};
  auto weight = input.weights.Get(name + ".weight");
  if (weight.ok() && (weight->dim() != 2 || weight->size(1) != dimensions || !weight->is_floating_point())) {
    weight = absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, ".weight' is no classifier over vectors of ", dimensions, " numbers"));
  }
  if (!weight.ok()) {
    reader.Fail(weight.status());
    return {};
  }
  auto bias = input.weights.Get(name + ".bias", {weight->size(0)});
  if (!bias.ok()) {
    reader.Fail(bias.status());
    return {};
  }
  return {.weight = OnDevice(*weight, input.device), .bias = OnDevice(*bias, input.device)};
}

void RefuseImageClassifier(ModuleReader& reader, const ImageFamilyInput& input) {
  if (!input.classifier) return;
  reader.Fail(absl::InvalidArgumentError(
      absl::StrCat(input.config->path(), ": the model has no classifier over its vectors, which image.labels need")));
}

ImageEncoderInfo ImageInfoOf(const ImageFamilyInput& input, int64_t dimensions, const ModuleReader& reader,
                             const std::vector<at::Tensor>& others) {
  ImageEncoderInfo info{.width = int64_t{input.preprocessing.width},
                        .height = int64_t{input.preprocessing.height},
                        .dimensions = dimensions,
                        .parameter_count = reader.parameter_count(),
                        .parameter_bytes = reader.parameter_bytes()};
  for (const at::Tensor& tensor : others) {
    if (!tensor.defined()) continue;
    info.parameter_count += static_cast<uint64_t>(tensor.numel());
    info.parameter_bytes += tensor.nbytes();
  }
  return info;
}

}  // namespace tributary
