#include "engine/libtorch/encode/efficientnet_lite0.h"

#include <ATen/ops/linear.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/efficientnet_pixels.h"

namespace tributary {
namespace {

constexpr int64_t kStemChannels = 32;
constexpr int64_t kHeadChannels = 1280;
// The stem sees one row and column of padding at the bottom and right: 3x3, stride 2, "same".
constexpr int64_t kPaddedSize = EfficientNetLite0::kImageSize + 1;

// Stages of equal blocks; the first block of a stage has its stride and changes the width.
struct BlockGroup {
  int64_t repeats, kernel, stride, expansion, out_channels;
};
constexpr BlockGroup kGroups[] = {
    {1, 3, 1, 1, 16},  {2, 3, 2, 6, 24},  {2, 5, 2, 6, 40},  {3, 3, 2, 6, 80},
    {3, 5, 1, 6, 112}, {4, 5, 2, 6, 192}, {1, 3, 1, 6, 320},
};

}  // namespace

absl::StatusOr<EfficientNetLite0> EfficientNetLite0::Load(const SafetensorsWeights& weights, ComputeType type,
                                                          const ProgramDevice& device) {
  if (type == ComputeType::kInt8) {
    return absl::InvalidArgumentError(
        "image.dtype int8 needs an image encoder made of linear layers (a transformer); EfficientNet-Lite0 is made of "
        "convolutions: use auto, fp32 or bf16");
  }
  uint64_t count = 0;
  uint64_t bytes = 0;
  const auto load = [&](const std::string& conv, const std::string& norm, const ConvolutionShape& shape) {
    auto loaded = FoldedConvolution::Load(weights, conv, norm, shape, type, device);
    if (loaded.ok()) {
      count += loaded->parameter_count();
      bytes += loaded->parameter_bytes();
    }
    return loaded;
  };

  auto stem = load("_conv_stem", "_bn0",
                   {.in_channels = 3,
                    .out_channels = kStemChannels,
                    .kernel = 3,
                    .stride = 2,
                    .in_side = kPaddedSize,
                    .padded_input = true});
  if (!stem.ok()) return stem.status();
  int64_t side = kImageSize / 2;
  int64_t channels = kStemChannels;
  std::vector<Block> blocks;
  for (const BlockGroup& group : kGroups) {
    for (int64_t repeat = 0; repeat < group.repeats; ++repeat) {
      const std::string name = absl::StrCat("_blocks.", blocks.size(), ".");
      const int64_t stride = repeat == 0 ? group.stride : 1;
      const int64_t wide = channels * group.expansion;
      std::optional<FoldedConvolution> expand;
      if (group.expansion != 1) {
        auto loaded = load(name + "_expand_conv", name + "_bn0",
                           {.in_channels = channels, .out_channels = wide, .in_side = side});
        if (!loaded.ok()) return loaded.status();
        expand = *std::move(loaded);
      }
      auto depthwise = load(name + "_depthwise_conv", name + "_bn1",
                            {.in_channels = wide,
                             .out_channels = wide,
                             .kernel = group.kernel,
                             .stride = stride,
                             .groups = wide,
                             .in_side = side});
      if (!depthwise.ok()) return depthwise.status();
      side /= stride;
      auto project = load(name + "_project_conv", name + "_bn2",
                          {.in_channels = wide, .out_channels = group.out_channels, .in_side = side});
      if (!project.ok()) return project.status();
      blocks.push_back({.expand = std::move(expand),
                        .depthwise = *std::move(depthwise),
                        .project = *std::move(project),
                        .residual = stride == 1 && channels == group.out_channels});
      channels = group.out_channels;
    }
  }
  auto head = load("_conv_head", "_bn1", {.in_channels = channels, .out_channels = kHeadChannels, .in_side = side});
  if (!head.ok()) return head.status();
  auto classifier_weight = weights.Get("_fc.weight", {kClasses, kHeadChannels});
  if (!classifier_weight.ok()) return classifier_weight.status();
  auto classifier_bias = weights.Get("_fc.bias", {kClasses});
  if (!classifier_bias.ok()) return classifier_bias.status();

  EfficientNetLite0 model(*std::move(stem), *std::move(head));
  const auto place = TorchDevice(device);
  model.type_ = TorchType(type);
  model.blocks_ = std::move(blocks);
  // Copies: the mapped file may go.
  model.classifier_weight_ = classifier_weight->to(place, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  model.classifier_bias_ = classifier_bias->to(place, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  const auto classifier = static_cast<uint64_t>(classifier_weight->numel() + classifier_bias->numel());
  model.parameter_count_ = count + classifier;
  model.parameter_bytes_ = bytes + classifier * sizeof(float);
  return model;
}

at::Tensor EfficientNetLite0::Forward(const at::Tensor& images) const {
  at::Tensor x = stem_.ForwardRelu6(EfficientNetPixels(images, kPaddedSize, type_));
  for (const Block& block : blocks_) {
    const at::Tensor wide = block.expand ? block.expand->ForwardRelu6(x) : x;
    const at::Tensor filtered = block.depthwise.ForwardRelu6(wide);
    x = block.residual ? block.project.ForwardAdd(filtered, x) : block.project.Forward(filtered);
  }
  const at::Tensor features = head_.ForwardRelu6(x).to(at::kFloat).mean({2, 3});
  return at::linear(features, classifier_weight_, classifier_bias_);
}

}  // namespace tributary
