// EfficientNet-Lite 0 to 4. The vector is the pooled output of the last convolution, before the classifier.
// Source: Tan & Le 2019, https://arxiv.org/abs/1905.11946, Lite variants of tensorflow/tpu
//   (models/official/efficientnet/lite); tensor names of timm, and for Lite0 of the PyPI package
//   efficientnet_lite_pytorch too.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/encode/image_convolution.h"
#include "engine/libtorch/encode/image_encoder.h"
#include "engine/libtorch/encode/image_families/vision_parts.h"
#include "engine/libtorch/encode/image_pixels.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {
namespace {

using Activation = Convolution::Activation;

constexpr double kEpsilon = 1e-3;  // of the batch norms
constexpr int64_t kStemChannels = 32;
constexpr int64_t kHeadChannels = 1280;

// Stages of equal blocks; the first block of a stage has its stride and changes the width.
struct Stage {
  int64_t repeats, kernel, stride, expansion, channels;
};
constexpr Stage kStages[] = {
    {1, 3, 1, 1, 16},  {2, 3, 2, 6, 24},  {2, 5, 2, 6, 40},  {3, 3, 2, 6, 80},
    {3, 5, 1, 6, 112}, {4, 5, 2, 6, 192}, {1, 3, 1, 6, 320},
};
constexpr size_t kLastStage = std::size(kStages) - 1;

struct Scaling {
  double width, depth;
};
// Of timm's name, before the variant's digit.
constexpr std::string_view kArchitecture = "tf_efficientnet_lite";
constexpr Scaling kScalings[] = {{1.0, 1.0}, {1.0, 1.1}, {1.1, 1.2}, {1.2, 1.4}, {1.4, 1.8}};

// Channels are multiples of 8, and not less than nine tenths of what was asked for.
int64_t ScaledChannels(int64_t channels, double width) {
  constexpr int64_t kDivisor = 8;
  const double wanted = static_cast<double>(channels) * width;
  const int64_t rounded = std::max(kDivisor, static_cast<int64_t>(wanted + kDivisor / 2.0) / kDivisor * kDivisor);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + kDivisor : rounded;
}

// The first and the last stage are not deepened.
int64_t ScaledRepeats(size_t stage, double depth) {
  const int64_t repeats = kStages[stage].repeats;
  if (stage == 0 || stage == kLastStage) return repeats;
  return static_cast<int64_t>(std::ceil(static_cast<double>(repeats) * depth));
}

struct ConvolutionNames {
  std::string convolution, norm;
};

// Of one block, in the order they run.
struct BlockNames {
  ConvolutionNames expand, depthwise, project;
};

// How a file calls its tensors.
struct Naming {
  ConvolutionNames stem, head;
  const char* classifier;
  BlockNames (*block)(size_t stage, int64_t repeat, size_t block);
};

BlockNames PackagedBlock(size_t /*stage*/, int64_t /*repeat*/, size_t block) {
  const std::string name = absl::StrCat("_blocks.", block, ".");
  return {.expand = {name + "_expand_conv", name + "_bn0"},
          .depthwise = {name + "_depthwise_conv", name + "_bn1"},
          .project = {name + "_project_conv", name + "_bn2"}};
}

BlockNames TimmBlock(size_t stage, int64_t repeat, size_t /*block*/) {
  const std::string name = absl::StrCat("blocks.", stage, ".", repeat, ".");
  // Blocks that widen nothing are another class there.
  if (kStages[stage].expansion == 1) {
    return {.expand = {}, .depthwise = {name + "conv_dw", name + "bn1"}, .project = {name + "conv_pw", name + "bn2"}};
  }
  return {.expand = {name + "conv_pw", name + "bn1"},
          .depthwise = {name + "conv_dw", name + "bn2"},
          .project = {name + "conv_pwl", name + "bn3"}};
}

// MBConv without squeeze-and-excitation: widen, filter each channel, narrow, add the input where shapes allow.
struct Block {
  std::optional<Convolution> expand;
  Convolution depthwise;
  Convolution project;
  bool residual = false;
};

struct Parts {
  PixelValues pixels;
  int64_t padded_height = 0;
  int64_t padded_width = 0;
  Convolution stem;
  std::vector<Block> blocks;
  Convolution head;
};

class EfficientNetLite final : public ImageEncoder {
 public:
  EfficientNetLite(const ImageEncoderInfo& info, ImageClassifier classifier, Parts parts)
      : ImageEncoder(info, std::move(classifier)), parts_(std::move(parts)) {}

  at::Tensor Hidden(const at::Tensor& pixels) const override {
    at::Tensor x = parts_.stem.Forward(parts_.pixels.Forward(pixels, parts_.padded_height, parts_.padded_width),
                                       Activation::kRelu6);
    for (const Block& block : parts_.blocks) {
      const at::Tensor wide = block.expand ? block.expand->Forward(x, Activation::kRelu6) : x;
      const at::Tensor filtered = block.depthwise.Forward(wide, Activation::kRelu6);
      x = block.residual ? block.project.ForwardAdd(filtered, x) : block.project.Forward(filtered);
    }
    return parts_.head.Forward(x, Activation::kRelu6);
  }

  at::Tensor Pool(const at::Tensor& hidden) const override { return hidden.to(at::kFloat).mean({2, 3}); }

 private:
  const Parts parts_;
};

// The shape of what runs next, from the one that ran before.
ConvolutionShape After(const ConvolutionShape& before, int64_t out_channels) {
  return {.in_channels = before.out_channels,
          .out_channels = out_channels,
          .height = before.OutHeight(),
          .width = before.OutWidth(),
          .padding = ConvolutionShape::Padding::kSame};
}

Parts ReadParts(BatchNormReader& reader, const Naming& naming, const Scaling& scaling, const ImageFamilyInput& input) {
  const Sides image = SidesOf(input.preprocessing);
  // "Same" padding of a stride of 2 over an even side is one row below and one column on the right: made with the
  // pixels.
  const bool even = image.height % 2 == 0 && image.width % 2 == 0;
  ConvolutionShape shape{.in_channels = 3,
                         .out_channels = kStemChannels,
                         .kernel = 3,
                         .stride = 2,
                         .height = image.height + (even ? 1 : 0),
                         .width = image.width + (even ? 1 : 0),
                         .padding = even ? ConvolutionShape::Padding::kNone : ConvolutionShape::Padding::kSame};
  Parts parts{.pixels = PixelValues(input.preprocessing.pixels, input.type, input.device),
              .padded_height = shape.height,
              .padded_width = shape.width,
              .stem = {},
              .blocks = {},
              .head = {}};
  const auto read = [&](const ConvolutionNames& names) { return reader.Read(names.convolution, names.norm, shape); };
  parts.stem = read(naming.stem);
  for (size_t stage = 0; stage < std::size(kStages); ++stage) {
    const Stage& plan = kStages[stage];
    const int64_t channels = ScaledChannels(plan.channels, scaling.width);
    for (int64_t repeat = 0; repeat < ScaledRepeats(stage, scaling.depth); ++repeat) {
      const BlockNames names = naming.block(stage, repeat, parts.blocks.size());
      const int64_t narrow = shape.out_channels;
      Block block;
      block.residual = (repeat > 0 || plan.stride == 1) && narrow == channels;
      if (plan.expansion != 1) {
        shape = After(shape, narrow * plan.expansion);
        block.expand = read(names.expand);
      }
      shape = After(shape, shape.out_channels);
      shape.kernel = plan.kernel;
      shape.stride = repeat == 0 ? plan.stride : 1;
      shape.groups = shape.in_channels;
      block.depthwise = read(names.depthwise);
      shape = After(shape, channels);
      block.project = read(names.project);
      parts.blocks.push_back(std::move(block));
    }
  }
  shape = After(shape, kHeadChannels);
  parts.head = read(naming.head);
  return parts;
}

}  // namespace

LoadedImageFamily LoadEfficientNetLite(const ImageFamilyInput& input) {
  Naming naming{
      .stem = {"_conv_stem", "_bn0"}, .head = {"_conv_head", "_bn1"}, .classifier = "_fc", .block = PackagedBlock};
  Scaling scaling = kScalings[0];
  std::string architecture;
  if (input.config != nullptr) {
    architecture = input.config->Text("architecture", "");
    AllowText(*input.config, "global_pool", {"avg"});
    RefuseKey(*input.config, "model_args");
    if (!input.config->status().ok()) return input.config->status();
  }
  if (!architecture.empty()) {  // timm's
    const size_t variant = architecture.size() == kArchitecture.size() + 1 && architecture.starts_with(kArchitecture)
                               ? static_cast<size_t>(architecture.back() - '0')
                               : std::size(kScalings);
    if (variant >= std::size(kScalings)) {
      input.config->Fail(
          absl::StrCat("architecture must be tf_efficientnet_lite0 to tf_efficientnet_lite4, is '", architecture, "'"));
      return input.config->status();
    }
    naming = {
        .stem = {"conv_stem", "bn1"}, .head = {"conv_head", "bn2"}, .classifier = "classifier", .block = TimmBlock};
    scaling = kScalings[variant];
  }
  ModuleReader reader(input.weights, naming.stem.convolution + ".weight", input.type, input.device);
  if (!reader.status().ok()) return reader.status();
  BatchNormReader convolutions(input.weights, /*prefix=*/"", kEpsilon, input.type, input.device);
  Parts parts = ReadParts(convolutions, naming, scaling, input);
  if (!convolutions.status().ok()) return convolutions.status();
  ImageClassifier classifier = ReadImageClassifier(reader, naming.classifier, kHeadChannels, input);
  if (!reader.status().ok()) return reader.status();
  ImageEncoderInfo info = ImageInfoOf(input, kHeadChannels, reader, {classifier.weight, classifier.bias});
  info.parameter_count += convolutions.parameter_count();
  info.parameter_bytes += convolutions.parameter_bytes();
  return std::make_unique<EfficientNetLite>(info, std::move(classifier), std::move(parts));
}

}  // namespace tributary
