#include "engine/prepare/image/preprocessor_config.h"

#include <array>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/files/json_text.h"

namespace tributary {
namespace {

using nlohmann::json;
using Channels = std::array<double, 3>;

constexpr uint32_t kMaxSide = 8192;
constexpr uint64_t kMaxPixels = uint64_t{1} << 22;  // of a picture as the encoder takes it
constexpr double kByteScale = 1.0 / 255;

constexpr Channels kHalf = {0.5, 0.5, 0.5};
constexpr Channels kClipMean = {0.48145466, 0.4578275, 0.40821073};
constexpr Channels kClipStd = {0.26862954, 0.26130258, 0.27577711};

// What a size says: `edge`, or width and height.
struct Size {
  uint32_t edge = 0;
  uint32_t width = 0;
  uint32_t height = 0;
};

enum class Kind : uint8_t { kPlain, kConvNext, kEfficientNet };

// A class of transformers with its attributes.
struct Processor {
  std::string_view name;
  Kind kind = Kind::kPlain;
  ResizeFilter resample = ResizeFilter::kBicubic;
  Size size = {};
  bool default_to_square = true;
  bool center_crop = false;
  Size crop_size = {};
  Channels mean = kHalf;
  Channels std = kHalf;
  bool convert_rgb = false;
};

constexpr std::array kProcessors = {
    Processor{.name = "CLIPImageProcessor",
              .size = {.edge = 224},
              .default_to_square = false,
              .center_crop = true,
              .crop_size = {.width = 224, .height = 224},
              .mean = kClipMean,
              .std = kClipStd,
              .convert_rgb = true},
    Processor{.name = "BitImageProcessor",
              .size = {.edge = 224},
              .default_to_square = false,
              .center_crop = true,
              .crop_size = {.width = 224, .height = 224},
              .mean = kClipMean,
              .std = kClipStd,
              .convert_rgb = true},
    Processor{.name = "SiglipImageProcessor",
              .size = {.width = 224, .height = 224},
              .default_to_square = false,
              .convert_rgb = true},
    Processor{.name = "ViTImageProcessor", .resample = ResizeFilter::kBilinear, .size = {.width = 224, .height = 224}},
    Processor{.name = "DeiTImageProcessor",
              .size = {.width = 256, .height = 256},
              .center_crop = true,
              .crop_size = {.width = 224, .height = 224}},
    Processor{
        .name = "ConvNextImageProcessor", .kind = Kind::kConvNext, .size = {.edge = 384}, .default_to_square = false},
    Processor{.name = "EfficientNetImageProcessor",
              .kind = Kind::kEfficientNet,
              .size = {.width = 346, .height = 346},
              .crop_size = {.width = 289, .height = 289}},
};

// For files that do not name their processor, as the first ones of ViT.
struct ModelProcessor {
  std::string_view model_type;
  std::string_view processor;
};
constexpr std::array kModelProcessors = {
    ModelProcessor{"clip", "CLIPImageProcessor"},
    ModelProcessor{"clip_vision_model", "CLIPImageProcessor"},
    ModelProcessor{"siglip", "SiglipImageProcessor"},
    ModelProcessor{"siglip_vision_model", "SiglipImageProcessor"},
    ModelProcessor{"vit", "ViTImageProcessor"},
    ModelProcessor{"dinov2", "BitImageProcessor"},
    ModelProcessor{"dinov2_with_registers", "BitImageProcessor"},
    ModelProcessor{"deit", "DeiTImageProcessor"},
    ModelProcessor{"resnet", "ConvNextImageProcessor"},
    ModelProcessor{"convnext", "ConvNextImageProcessor"},
    ModelProcessor{"convnextv2", "ConvNextImageProcessor"},
    ModelProcessor{"efficientnet", "EfficientNetImageProcessor"},
};

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// A JSON object of a file. Readers return the value, or a fallback after noting the first error.
class Keys {
 public:
  Keys(std::string path, json object) : path_(std::move(path)), object_(std::move(object)) {}

  const json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  bool Flag(const char* key, bool fallback) {
    const json* value = Find(key);
    if (value == nullptr) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    Fail(absl::StrCat(key, " must be true or false, is ", Shown(*value)));
    return fallback;
  }

  double Number(const char* key, double fallback) {
    const json* value = Find(key);
    if (value == nullptr) return fallback;
    if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
    Fail(absl::StrCat(key, " must be a number, is ", Shown(*value)));
    return fallback;
  }

  std::string Text(const char* key) {
    const json* value = Find(key);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    Fail(absl::StrCat(key, " must be a string, is ", Shown(*value)));
    return {};
  }

  // One number for all channels or one for each.
  Channels PerChannel(const char* key, const Channels& fallback) {
    const json* value = Find(key);
    if (value == nullptr) return fallback;
    Channels channels = fallback;
    const bool list = value->is_array() && value->size() == channels.size();
    for (size_t c = 0; c < channels.size(); ++c) {
      const json& one = list ? (*value)[c] : *value;
      if (!one.is_number() || !std::isfinite(one.get<double>())) {
        Fail(absl::StrCat(key, " must be a number or a list of three, is ", Shown(*value)));
        return fallback;
      }
      channels[c] = one.get<double>();
    }
    return channels;
  }

  // {"height": h, "width": w}, {"shortest_edge": s}, [h, w], or a number: a square or an edge.
  Size SizeOf(const char* key, const Size& fallback, bool number_is_square) {
    const json* value = Find(key);
    if (value == nullptr) return fallback;
    if (value->is_array() && value->size() == 2) {
      return {.edge = 0, .width = Side(key, (*value)[1]), .height = Side(key, (*value)[0])};
    }
    if (value->is_object()) return SizeOfObject(key, *value, fallback);
    const uint32_t side = Side(key, *value);
    return number_is_square ? Size{.edge = 0, .width = side, .height = side}
                            : Size{.edge = side, .width = 0, .height = 0};
  }

  void Fail(const std::string& what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
  }
  const absl::Status& status() const { return status_; }

 private:
  Size SizeOfObject(const char* key, const json& object, const Size& fallback) {
    const auto has = [&](const char* part) { return object.contains(part) && !object[part].is_null(); };
    for (const char* other : {"longest_edge", "max_height", "max_width", "min_pixels", "max_pixels"}) {
      if (has(other)) {
        Fail(absl::StrCat(key, ".", other, " is not supported: the encoders take pictures of one size"));
        return fallback;
      }
    }
    if (has("shortest_edge") && !has("height") && !has("width")) {
      return {.edge = Side(absl::StrCat(key, ".shortest_edge"), object["shortest_edge"]), .width = 0, .height = 0};
    }
    if (has("height") && has("width") && !has("shortest_edge")) {
      return {.edge = 0,
              .width = Side(absl::StrCat(key, ".width"), object["width"]),
              .height = Side(absl::StrCat(key, ".height"), object["height"])};
    }
    Fail(absl::StrCat(key, " must have height and width, or shortest_edge, is ", Shown(object)));
    return fallback;
  }

  uint32_t Side(const std::string& key, const json& value) {
    if (value.is_number_unsigned() && value.get<uint64_t>() >= 1 && value.get<uint64_t>() <= kMaxSide) {
      return value.get<uint32_t>();
    }
    Fail(absl::StrCat(key, " must be a whole number from 1 to ", kMaxSide, ", is ", Shown(value)));
    return 1;
  }

  std::string path_;
  json object_;
  absl::Status status_;
};

// nullopt: there is no such file.
absl::StatusOr<std::optional<json>> ReadObject(const std::string& path) {
  auto value = ReadJsonFile(path);
  if (absl::IsNotFound(value.status())) return std::nullopt;
  if (!value.ok()) return value.status();
  if (!value->is_object()) return absl::InvalidArgumentError(absl::StrCat(path, " is no JSON object"));
  return *std::move(value);
}

absl::StatusOr<Keys> ReadKeys(const std::string& folder) {
  const std::string both = folder + "/processor_config.json";
  auto object = ReadObject(both);
  if (!object.ok()) return object.status();
  if (object->has_value() && (*object)->contains("image_processor")) {
    json part = (**object)["image_processor"];
    if (!part.is_object()) return absl::InvalidArgumentError(absl::StrCat(both, ": image_processor is no object"));
    return Keys(both + ": image_processor", std::move(part));
  }
  const std::string path = folder + "/preprocessor_config.json";
  object = ReadObject(path);
  if (!object.ok()) return object.status();
  if (!object->has_value()) return absl::NotFoundError(absl::StrCat(path, " is missing"));
  return Keys(path, **std::move(object));
}

// The class a file means, without the endings that only tell its backend or its age.
std::string BaseName(std::string name) {
  constexpr std::string_view kOld = "FeatureExtractor";
  for (const char* ending : {"Fast", "Pil"}) name = std::string(absl::StripSuffix(name, ending));
  if (const size_t at = name.find(kOld); at != std::string::npos) name.replace(at, kOld.size(), "ImageProcessor");
  return name;
}

std::optional<Processor> FindProcessor(const std::string& folder, Keys& keys) {
  std::string name = keys.Text("image_processor_type");
  if (name.empty()) name = keys.Text("feature_extractor_type");
  if (name.empty()) {
    const auto config = ReadObject(folder + "/config.json");
    std::string model_type;
    if (config.ok() && config->has_value() && (*config)->contains("model_type") &&
        (**config)["model_type"].is_string()) {
      model_type = (**config)["model_type"].get<std::string>();
    }
    for (const ModelProcessor& model : kModelProcessors) {
      if (model.model_type == model_type) name = model.processor;
    }
    if (name.empty()) {
      keys.Fail(absl::StrCat("image_processor_type is missing, and config.json's model_type '", model_type,
                             "' is none whose image processor is known"));
      return std::nullopt;
    }
  }
  const std::string base = BaseName(name);
  for (const Processor& processor : kProcessors) {
    if (processor.name == base) return processor;
  }
  if (base == "Siglip2ImageProcessor") {
    keys.Fail(
        "image_processor_type Siglip2ImageProcessor (NaFlex: as many patches as the picture needs) is not "
        "supported; the SigLIP 2 models of fixed resolution are");
    return std::nullopt;
  }
  std::string known;
  for (const Processor& processor : kProcessors)
    absl::StrAppend(&known, known.empty() ? "" : ", ", Absl(processor.name));
  keys.Fail(absl::StrCat("image_processor_type '", name, "' is not supported (", known, " are)"));
  return std::nullopt;
}

ResizeFilter ReadFilter(Keys& keys, ResizeFilter fallback) {
  const json* value = keys.Find("resample");
  if (value == nullptr) return fallback;
  constexpr auto kLast = static_cast<uint64_t>(ResizeFilter::kHamming);
  if (value->is_number_unsigned() && value->get<uint64_t>() <= kLast) {
    return static_cast<ResizeFilter>(value->get<uint8_t>());
  }
  keys.Fail(absl::StrCat("resample must be one of Pillow's filters, 0 to ", kLast, ", is ", Shown(*value)));
  return fallback;
}

// Resize and the size of the output, which has to be the same for every picture.
void ReadGeometry(const Processor& processor, Keys& keys, ImagePreprocessing* preprocessing) {
  // From 384 on ConvNeXt is evaluated on the whole picture, squeezed into the square.
  constexpr uint32_t kConvNextWarp = 384;
  constexpr double kConvNextCropPart = 224.0 / 256;

  const bool do_resize = keys.Flag("do_resize", true);
  const bool do_crop = keys.Flag("do_center_crop", processor.center_crop);
  const bool number_is_square = keys.Flag("default_to_square", processor.default_to_square);
  Size size = keys.SizeOf("size", processor.size, number_is_square);
  const Size crop = keys.SizeOf("crop_size", processor.crop_size, /*number_is_square=*/true);
  const double crop_part = keys.Number("crop_pct", kConvNextCropPart);
  if (keys.Flag("do_pad", false)) keys.Fail("do_pad true is not supported");
  if (keys.Flag("use_square_size", false)) keys.Fail("use_square_size true is not supported");

  ImagePreprocessing::Resize& resize = preprocessing->resize;
  resize = {.mode = ResizeMode::kNone,
            .filter = ReadFilter(keys, processor.resample),
            .width = 0,
            .height = 0,
            .edge = 0,
            .crop_padding = 0};
  if (!do_resize) {
    size = {};
  } else if (size.edge == 0) {
    resize.mode = ResizeMode::kExact;
  } else {
    resize.mode = ResizeMode::kShortestEdge;
    resize.edge = size.edge;
  }
  if (processor.kind == Kind::kConvNext && do_resize) {
    if (size.edge == 0) {
      return keys.Fail("size must be a shortest_edge for ConvNextImageProcessor");
    }
    if (do_crop) return keys.Fail("do_center_crop true is not supported for ConvNextImageProcessor");
    size = {.edge = 0, .width = size.edge, .height = size.edge};
    if (size.width >= kConvNextWarp) {
      resize.mode = ResizeMode::kExact;
    } else {
      const double edge = size.width / crop_part;
      if (!(edge >= size.width && edge <= kMaxSide)) {
        return keys.Fail(absl::StrCat("crop_pct must be above 0 and at most 1, and leave ", size.width,
                                      " / crop_pct at most ", kMaxSide, ", is ", crop_part));
      }
      resize.edge = static_cast<uint32_t>(edge);
    }
  }
  if (resize.mode == ResizeMode::kExact) {
    resize.width = size.width;
    resize.height = size.height;
  }

  if (do_crop) {
    if (crop.edge != 0 || crop.width == 0) {
      return keys.Fail("crop_size must have height and width, do_center_crop being true");
    }
    preprocessing->width = crop.width;
    preprocessing->height = crop.height;
  } else if (size.width != 0) {
    preprocessing->width = size.width;
    preprocessing->height = size.height;
  } else if (do_resize) {
    keys.Fail("size.shortest_edge without do_center_crop leaves pictures of different sizes, which is not supported");
  } else {
    keys.Fail("do_resize false without do_center_crop leaves pictures of different sizes, which is not supported");
  }
  const uint64_t pixels = uint64_t{preprocessing->width} * preprocessing->height;
  if (pixels > kMaxPixels) {
    keys.Fail(absl::StrCat("size and crop_size make pictures of ", preprocessing->width, " x ", preprocessing->height,
                           " = ", pixels, " pixels, the limit is ", kMaxPixels));
  }
}

// Rescale and normalise as one multiplication and one addition.
ImagePreprocessing::PixelTransform ReadPixelTransform(const Processor& processor, Keys& keys) {
  const bool is_efficient_net = processor.kind == Kind::kEfficientNet;
  const bool do_rescale = keys.Flag("do_rescale", true);
  const double factor = keys.Number("rescale_factor", kByteScale);
  const bool do_normalize = keys.Flag("do_normalize", true);
  const Channels mean = keys.PerChannel("image_mean", processor.mean);
  const Channels std = keys.PerChannel("image_std", processor.std);
  const bool offset = is_efficient_net && keys.Flag("rescale_offset", false);
  const bool include_top = is_efficient_net && keys.Flag("include_top", true);

  ImagePreprocessing::PixelTransform pixels{};
  for (size_t c = 0; c < std.size(); ++c) {
    if (std[c] == 0) keys.Fail("image_std must not be zero");
    double scale = do_rescale ? factor : 1;
    double shift = do_rescale && offset ? -1 : 0;
    if (do_normalize) {
      scale /= std[c];
      shift = (shift - mean[c]) / std[c];
    }
    if (include_top) {
      scale /= std[c];
      shift /= std[c];
    }
    pixels.scale[c] = static_cast<float>(scale);
    pixels.shift[c] = static_cast<float>(shift);
    if (!std::isfinite(pixels.scale[c]) || !std::isfinite(pixels.shift[c])) {
      keys.Fail("rescale_factor, image_mean and image_std leave the range of a float");
    }
  }
  return pixels;
}

}  // namespace

absl::StatusOr<ImagePreprocessing> ReadPreprocessorConfig(const std::string& folder) {
  auto keys = ReadKeys(folder);
  if (!keys.ok()) return keys.status();
  const std::optional<Processor> processor = FindProcessor(folder, *keys);
  if (!keys->status().ok()) return keys->status();
  ImagePreprocessing preprocessing;
  ReadGeometry(*processor, *keys, &preprocessing);
  preprocessing.pixels = ReadPixelTransform(*processor, *keys);
  // Without this the reference refuses everything but RGB, so that pictures are converted before it sees them.
  const bool convert = keys->Flag("do_convert_rgb", processor->convert_rgb);
  preprocessing.transparency = convert ? Transparency::kOnWhite : Transparency::kIgnore;
  if (!keys->status().ok()) return keys->status();
  return preprocessing;
}

}  // namespace tributary
