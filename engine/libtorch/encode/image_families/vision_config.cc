#include "engine/libtorch/encode/image_families/vision_config.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"
#include "engine/libtorch/weights/encoder_config.h"

namespace tributary {
namespace {

// Sizes beyond any model; products of them stay far within int64.
constexpr int64_t kMaxSize = int64_t{1} << 20;
constexpr int64_t kMaxSide = int64_t{1} << 14;
constexpr int64_t kMaxPatches = int64_t{1} << 14;

constexpr int64_t kDefaultWidth = 768;
constexpr int64_t kDefaultLayers = 12;
constexpr int64_t kDefaultHeads = 12;
constexpr int64_t kDefaultImage = 224;

constexpr double kQuickGeluFactor = 1.702;

bool IsCount(const nlohmann::json& value, int64_t max) {
  return value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
         value.get<uint64_t>() <= static_cast<uint64_t>(max);
}

}  // namespace

Sides ReadSides(JsonFile& file, const char* key, int64_t fallback) {
  if (file.Has(key) && file.root()[key].is_array()) {
    const nlohmann::json& pair = file.root()[key];
    if (pair.size() == 2 && IsCount(pair[0], kMaxSide) && IsCount(pair[1], kMaxSide)) {
      return {.height = pair[0].get<int64_t>(), .width = pair[1].get<int64_t>()};
    }
    file.Fail(absl::StrCat(key, " must be two whole numbers from 1 to ", kMaxSide, ", is ", Shown(pair)));
    return {.height = fallback, .width = fallback};
  }
  const int64_t side = file.Count(key, kMaxSide, fallback);
  return {.height = side, .width = side};
}

Sides SidesOf(const ImagePreprocessing& preprocessing) {
  return {.height = int64_t{preprocessing.height}, .width = int64_t{preprocessing.width}};
}

Sides PatchGrid(JsonFile& file, const Sides& image, const Sides& patch) {
  const Sides grid{.height = image.height / patch.height, .width = image.width / patch.width};
  if (grid.height > 0 && grid.width > 0 && grid.height * grid.width <= kMaxPatches) return grid;
  if (grid.height > 0 && grid.width > 0) {
    file.Fail(absl::StrCat("patch_size ", patch.height, " x ", patch.width, " makes ", grid.height * grid.width,
                           " patches of images of ", image.height, " x ", image.width, ", the limit is ", kMaxPatches));
    return {.height = 1, .width = 1};
  }
  file.Fail(absl::StrCat("patch_size ", patch.height, " x ", patch.width, " is larger than the images, ", image.height,
                         " x ", image.width));
  return {.height = 1, .width = 1};
}

std::vector<int64_t> ReadCounts(JsonFile& file, const char* key, const std::vector<int64_t>& fallback) {
  if (!file.Has(key)) return fallback;
  const nlohmann::json& values = file.root()[key];
  std::vector<int64_t> counts;
  if (values.is_array()) {
    for (const auto& value : values) {
      if (IsCount(value, kMaxSize)) counts.push_back(value.get<int64_t>());
    }
  }
  if (!counts.empty() && counts.size() == values.size()) return counts;
  file.Fail(absl::StrCat(key, " must be an array of whole numbers from 1 to ", kMaxSize, ", is ", Shown(values)));
  return fallback;
}

void CheckChannels(JsonFile& file) {
  constexpr int64_t kChannels = 3;
  const int64_t channels = file.Count("num_channels", kMaxSize, kChannels);
  if (channels != kChannels) file.Fail(absl::StrCat("num_channels must be 3, is ", channels));
}

FeedForwardActivation ReadFeedForwardActivation(JsonFile& file, const char* fallback) {
  const std::string name = file.Text("hidden_act", fallback);
  if (name == "quick_gelu") return {.activation = Activation::kSilu, .factor = kQuickGeluFactor};
  const auto activation = ActivationOf(name);
  if (!activation) {
    file.Fail(absl::StrCat("hidden_act must be gelu, gelu_new, gelu_pytorch_tanh, quick_gelu, relu or silu, is '", name,
                           "'"));
  }
  return {.activation = activation.value_or(Activation::kGelu), .factor = 1};
}

VisionConfig ReadVisionConfig(JsonFile& file, const VisionDefaults& defaults) {
  VisionConfig config;
  config.hidden_size = file.Count("hidden_size", kMaxSize, kDefaultWidth);
  config.layers = file.Count("num_hidden_layers", 1024, kDefaultLayers);
  config.heads = file.Count("num_attention_heads", kMaxSize, kDefaultHeads);
  config.image = ReadSides(file, "image_size", kDefaultImage);
  config.patch = ReadSides(file, "patch_size", defaults.patch);
  config.norm_epsilon = file.Number("layer_norm_eps", defaults.norm_epsilon);
  if (!(config.norm_epsilon >= 0)) {
    file.Fail(absl::StrCat("layer_norm_eps must not be below 0, is ", config.norm_epsilon));
  }
  config.activation = ReadFeedForwardActivation(file, defaults.activation);
  CheckChannels(file);
  if (config.hidden_size % config.heads != 0) {
    file.Fail(absl::StrCat("num_attention_heads ", config.heads, " does not divide hidden_size ", config.hidden_size));
  }
  config.head_size = config.hidden_size / config.heads;
  for (const char* key : {"quantization_config", "pruned_heads", "head_dim"}) RefuseKey(file, key);
  return config;
}

void CheckImageSize(JsonFile& file, const VisionConfig& config, const ImagePreprocessing& preprocessing) {
  const Sides coming = SidesOf(preprocessing);
  if (coming == config.image) return;
  file.Fail(absl::StrCat("image_size is ", config.image.height, " x ", config.image.width,
                         ", the preprocessing makes images of ", coming.height, " x ", coming.width));
}

}  // namespace tributary
