// ResNet, v1.5 unless downsample_in_bottleneck says v1. The vector is pooler_output: the mean over the last feature
// map. Source: He et al. 2015, https://arxiv.org/abs/1512.03385; tensor names of transformers' ResNetModel.
#include <ATen/ops/max_pool2d.h>

#include <optional>
#include <string>
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

constexpr int64_t kMaxChannels = int64_t{1} << 20;
constexpr double kEpsilon = 1e-5;      // of the batch norms: torch's own, no key says otherwise
constexpr int64_t kReduction = 4;      // of a bottleneck's inner width
constexpr int64_t kStemChannels = 64;  // by default

struct Layer {
  std::optional<Convolution> shortcut;
  std::vector<Convolution> convolutions;  // the last one takes the residual
};

struct Parts {
  PixelValues pixels;
  Convolution stem;
  std::vector<Layer> layers;
};

class ResNet final : public ImageEncoder {
 public:
  ResNet(const ImageEncoderInfo& info, ImageClassifier classifier, Parts parts)
      : ImageEncoder(info, std::move(classifier)), parts_(std::move(parts)) {}

  at::Tensor Hidden(const at::Tensor& pixels) const override {
    at::Tensor x =
        parts_.stem.Forward(parts_.pixels.Forward(pixels, pixels.size(1), pixels.size(2)), Activation::kRelu);
    x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (const Layer& layer : parts_.layers) {
      const at::Tensor residual = layer.shortcut ? layer.shortcut->Forward(x) : x;
      for (size_t i = 0; i + 1 < layer.convolutions.size(); ++i) {
        x = layer.convolutions[i].Forward(x, Activation::kRelu);
      }
      x = layer.convolutions.back().ForwardAdd(x, residual, Activation::kRelu);
    }
    return x;
  }

  at::Tensor Pool(const at::Tensor& hidden) const override { return hidden.to(at::kFloat).mean({2, 3}); }

 private:
  const Parts parts_;
};

struct Config {
  int64_t stem_channels = 0;
  std::vector<int64_t> channels;
  std::vector<int64_t> depths;
  bool bottleneck = true;
  bool first_stage_strides = false;
  bool first_convolution_strides = false;
};

Config ReadConfig(JsonFile& file) {
  Config config;
  config.stem_channels = file.Count("embedding_size", kMaxChannels, kStemChannels);
  config.channels = ReadCounts(file, "hidden_sizes", {256, 512, 1024, 2048});
  config.depths = ReadCounts(file, "depths", {3, 4, 6, 3});
  AllowText(file, "layer_type", {"basic", "bottleneck"});
  config.bottleneck = file.Text("layer_type", "bottleneck") == "bottleneck";
  config.first_stage_strides = file.Flag("downsample_in_first_stage", false);
  config.first_convolution_strides = file.Flag("downsample_in_bottleneck", false);
  AllowText(file, "hidden_act", {"relu"});
  CheckChannels(file);
  if (config.channels.size() != config.depths.size()) {
    file.Fail(absl::StrCat("hidden_sizes has ", config.channels.size(), " stages, depths ", config.depths.size()));
  }
  return config;
}

class LayerReader {
 public:
  LayerReader(BatchNormReader& reader, const Config& config) : reader_(reader), config_(config) {}

  // One layer over `channels` x `sides`, which become those of its output.
  Layer Read(const std::string& name, int64_t out_channels, int64_t stride, int64_t& channels, Sides& sides) {
    Layer layer;
    const auto read = [&](const std::string& part, const ConvolutionShape& shape) {
      return reader_.Read(part + ".convolution", part + ".normalization", shape);
    };
    const auto shape_of = [](int64_t in, int64_t out, int64_t kernel, int64_t step, const Sides& at) {
      return ConvolutionShape{.in_channels = in,
                              .out_channels = out,
                              .kernel = kernel,
                              .stride = step,
                              .height = at.height,
                              .width = at.width};
    };
    if (channels != out_channels || stride != 1) {
      layer.shortcut = read(name + "shortcut", shape_of(channels, out_channels, 1, stride, sides));
    }
    const int64_t inner = config_.bottleneck ? out_channels / kReduction : out_channels;
    struct Step {
      int64_t out, kernel, stride;
    };
    std::vector<Step> steps = {{inner, 3, stride}, {out_channels, 3, 1}};
    if (config_.bottleneck) {
      const bool first = config_.first_convolution_strides;
      steps = {{inner, 1, first ? stride : 1}, {inner, 3, first ? 1 : stride}, {out_channels, 1, 1}};
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      const ConvolutionShape shape = shape_of(channels, steps[i].out, steps[i].kernel, steps[i].stride, sides);
      layer.convolutions.push_back(read(absl::StrCat(name, "layer.", i), shape));
      channels = shape.out_channels;
      sides = {.height = shape.OutHeight(), .width = shape.OutWidth()};
    }
    return layer;
  }

 private:
  BatchNormReader& reader_;
  const Config& config_;
};

}  // namespace

LoadedImageFamily LoadResNet(const ImageFamilyInput& input) {
  JsonFile& file = *input.config;
  const Config config = ReadConfig(file);
  if (!file.status().ok()) return file.status();

  constexpr char kProbe[] = "embedder.embedder.convolution.weight";
  ModuleReader reader(input.weights, kProbe, input.type, input.device);
  const auto prefix = input.weights.PrefixOf(kProbe);
  if (!prefix.ok()) return prefix.status();
  BatchNormReader convolutions(input.weights, *prefix, kEpsilon, input.type, input.device);
  const ConvolutionShape stem{.in_channels = 3,
                              .out_channels = config.stem_channels,
                              .kernel = 7,
                              .stride = 2,
                              .height = int64_t{input.preprocessing.height},
                              .width = int64_t{input.preprocessing.width}};
  Parts parts{.pixels = PixelValues(input.preprocessing.pixels, input.type, input.device),
              .stem = convolutions.Read("embedder.embedder.convolution", "embedder.embedder.normalization", stem),
              .layers = {}};
  int64_t channels = config.stem_channels;
  // After the 3 x 3 pooling of stride 2.
  Sides sides{.height = (stem.OutHeight() + 1) / 2, .width = (stem.OutWidth() + 1) / 2};
  LayerReader layers(convolutions, config);
  for (size_t stage = 0; stage < config.channels.size(); ++stage) {
    for (int64_t i = 0; i < config.depths[stage] && convolutions.status().ok(); ++i) {
      const int64_t stride = i == 0 && (stage > 0 || config.first_stage_strides) ? 2 : 1;
      parts.layers.push_back(layers.Read(absl::StrCat("encoder.stages.", stage, ".layers.", i, "."),
                                         config.channels[stage], stride, channels, sides));
    }
  }
  if (!convolutions.status().ok()) return convolutions.status();
  ImageClassifier classifier = ReadImageClassifier(reader, "classifier.1", channels, input);
  if (!reader.status().ok()) return reader.status();
  ImageEncoderInfo info = ImageInfoOf(input, channels, reader, {classifier.weight, classifier.bias});
  info.parameter_count += convolutions.parameter_count();
  info.parameter_bytes += convolutions.parameter_bytes();
  return std::make_unique<ResNet>(info, std::move(classifier), std::move(parts));
}

}  // namespace tributary
