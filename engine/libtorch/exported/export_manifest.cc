#include "engine/libtorch/exported/export_manifest.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"
#include "engine/libtorch/exported/json_section.h"
#include "engine/libtorch/weights/json_file.h"

namespace tributary {
namespace {

constexpr const char* kFileName = "/tributary.json";
constexpr int64_t kFormat = 1;
// Far above sensible values: they catch a slip of the hand before it becomes an allocation.
// Of the smallest batch that the module takes: it is run at load, and for a single input.
constexpr int64_t kMaxLeastTokens = int64_t{1} << 20;
constexpr int64_t kMaxLeastPixels = int64_t{1} << 28;
constexpr int64_t kMaxBatch = 4096;
constexpr int64_t kMaxLength = int64_t{1} << 20;
constexpr int64_t kMaxDimension = int64_t{1} << 20;
constexpr int64_t kMaxVocabulary = int64_t{1} << 30;
constexpr int64_t kMaxSide = 8192;
constexpr int64_t kMaxParameters = int64_t{1} << 50;
constexpr int64_t kMaxOutputs = 64;

// Indices are those of the enums.
const std::vector<std::string_view> kElementTypes = {"uint8", "int32", "int64", "float32", "float16", "bfloat16"};
const std::vector<std::string_view> kRoles = {"ids", "attention_mask", "position_ids", "token_type_ids", "pixels"};
const std::vector<std::string_view> kPoolings = {"mean",         "cls",      "max", "mean_sqrt_len_tokens",
                                                 "weightedmean", "lasttoken"};

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool IsFloating(ElementType type) { return type >= ElementType::kFloat32; }

void ReadModule(JsonSection& root, const std::string& folder, ExportManifest& manifest) {
  JsonSection module = root.Section("module");
  const std::string file = module.Text("file");
  // A name, not a path: nothing outside the folder can be meant.
  if (file.find('/') != std::string::npos || file == "." || file == "..") {
    module.Fail("file", absl::StrCat("must be the name of a file in the folder, is '", file, "'"));
  }
  manifest.module_path = absl::StrCat(folder, "/", file);
  manifest.type = static_cast<ModuleType>(module.Choice("type", {"aoti", "torchscript"}));
  manifest.device = static_cast<DeviceKind>(module.Choice("device", {"cpu", "cuda"}));
  manifest.dtype = static_cast<ComputeType>(module.Choice("dtype", {"fp32", "bf16", "fp16"}));
  manifest.libraries = module.Texts("libraries");
  manifest.parameter_count = static_cast<uint64_t>(module.Integer("parameter_count", 0, kMaxParameters, 0));
  manifest.parameter_bytes = static_cast<uint64_t>(module.Integer("parameter_bytes", 0, kMaxParameters, 0));
  module.RefuseUnknown();
}

void ReadInputs(JsonSection& root, JsonErrors* errors, ExportManifest& manifest) {
  const nlohmann::json* const inputs = root.Find("inputs");
  if (inputs == nullptr || !inputs->is_array() || inputs->empty()) {
    return root.Fail("inputs", "must be a list of the module's arguments");
  }
  for (size_t i = 0; i < inputs->size(); ++i) {
    JsonSection section((*inputs)[i], absl::StrCat("inputs[", i, "]"), errors);
    ExportedInput input;
    input.role = static_cast<InputRole>(section.Choice("role", kRoles));
    input.type = static_cast<ElementType>(section.Choice("dtype", kElementTypes));
    section.RefuseUnknown();
    const bool pixels = input.role == InputRole::kPixels;
    if (pixels != manifest.image.has_value()) {
      section.Fail("role", absl::StrCat("must be ", pixels ? "one of a text's" : "pixels", " in a manifest of kind ",
                                        pixels ? "text" : "image"));
    }
    const bool suits = pixels ? input.type == ElementType::kUint8 || IsFloating(input.type)
                              : input.type == ElementType::kInt32 || input.type == ElementType::kInt64;
    if (!suits) {
      section.Fail("dtype", absl::StrCat("must be ", pixels ? "uint8 or floating" : "int32 or int64", ", is ",
                                         ElementTypeName(input.type)));
    }
    for (const ExportedInput& earlier : manifest.inputs) {
      if (earlier.role == input.role) section.Fail("role", "is there twice");
    }
    manifest.inputs.push_back(input);
  }
  const auto has_ids = [](const ExportedInput& input) { return input.role == InputRole::kIds; };
  if (manifest.text && std::none_of(manifest.inputs.begin(), manifest.inputs.end(), has_ids)) {
    root.Fail("inputs", "must hold one of role ids");
  }
}

void ReadOutput(JsonSection& root, ExportManifest& manifest) {
  JsonSection section = root.Section("output");
  ExportedOutput& output = manifest.output;
  output.holds = static_cast<ExportedOutput::Holds>(section.Choice("holds", {"token_states", "vectors"}));
  output.index = static_cast<size_t>(section.Integer("index", 0, kMaxOutputs, 0));
  output.name = section.Text("name", "");
  output.type = static_cast<ElementType>(section.Choice("dtype", kElementTypes));
  output.dimension = section.Integer("dimension", 1, kMaxDimension);
  section.RefuseUnknown();
  if (!IsFloating(output.type)) section.Fail("dtype", "must be floating");
  if (!output.name.empty() && (section.Find("index") != nullptr || manifest.type != ModuleType::kTorchScript)) {
    section.Fail("name", "is for a TorchScript module that returns a dictionary, and excludes index");
  }
  if (manifest.image && output.holds != ExportedOutput::Holds::kVectors) {
    section.Fail("holds", "must be vectors for images");
  }
}

DimensionRange ReadRange(JsonSection& root, const char* key, int64_t most) {
  JsonSection section = root.Section(key);
  DimensionRange range{.min = section.Integer("min", 1, most, 1), .max = section.Integer("max", 1, most)};
  section.RefuseUnknown();
  if (range.min > range.max) section.Fail("min", absl::StrCat("is ", range.min, ", more than max ", range.max));
  return range;
}

void ReadText(JsonSection& root, const std::string& folder, ExportManifest& manifest) {
  ExportedTextPart& text = *manifest.text;
  text.length = ReadRange(root, "length", kMaxLength);
  text.vocabulary_size = root.Integer("vocabulary_size", 1, kMaxVocabulary);
  text.pad_id = root.Integer("pad_id", 0, kMaxVocabulary, 0);
  if (text.pad_id >= text.vocabulary_size) {
    root.Fail("pad_id", absl::StrCat("is ", text.pad_id, ", must be below vocabulary_size ", text.vocabulary_size));
  }
  for (const std::string& name : root.Texts("pooling")) {
    const auto found = std::find(kPoolings.begin(), kPoolings.end(), name);
    const auto pooling = static_cast<Pooling>(found - kPoolings.begin());
    if (found == kPoolings.end()) {
      root.Fail("pooling", absl::StrCat("mode '", name, "' is not supported"));
    } else if (std::find(text.pooling.begin(), text.pooling.end(), pooling) != text.pooling.end()) {
      root.Fail("pooling", absl::StrCat("mode '", name, "' is given twice"));
    } else {
      text.pooling.push_back(pooling);
    }
  }
  text.normalise = root.Flag("normalise", false);
  if (manifest.batch.min * text.length.min > kMaxLeastTokens) {
    root.Fail("batch", absl::StrCat("min ", manifest.batch.min, " of texts of at least ", text.length.min,
                                    " tokens: the smallest batch has more than ", kMaxLeastTokens, " tokens"));
  }

  const bool states = manifest.output.holds == ExportedOutput::Holds::kTokenStates;
  const bool chain = Exists(folder + "/modules.json");
  if (!states && !text.pooling.empty()) root.Fail("pooling", "is for token_states; the output holds vectors");
  if (!states && chain) root.Fail("output.holds", "is vectors, but modules.json would pool and change them");
  if (states && chain && (!text.pooling.empty() || root.Find("normalise") != nullptr)) {
    root.Fail("pooling", "and normalise are modules.json's to say, which is in the folder");
  }
  if (states && !chain && text.pooling.empty()) {
    root.Fail("pooling", "is missing: there is no modules.json to say it");
  }
}

// Three numbers, or one for all channels.
std::array<double, 3> PerChannel(const nlohmann::json& value, const std::string& key, double fallback,
                                 JsonErrors* errors) {
  std::array<double, 3> numbers{fallback, fallback, fallback};
  const bool three = value.is_array() && value.size() == 3 &&
                     std::all_of(value.begin(), value.end(), [](const auto& part) { return part.is_number(); });
  if (three) {
    for (size_t i = 0; i < 3; ++i) numbers[i] = value[i].get<double>();
  } else if (value.is_number()) {
    numbers.fill(value.get<double>());
  } else {
    errors->Add(absl::StrCat(key, " must be three numbers, is ", Shown(value)));
  }
  return numbers;
}

// The keys of transformers' image processors that change values; the others are about size, the preparation's matter.
absl::Status TransformOfHub(const std::string& folder, ExportedImagePart& image) {
  const std::string path = folder + "/preprocessor_config.json";
  auto file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  JsonErrors errors{.path = path, .status = absl::OkStatus()};
  const nlohmann::json& root = file->root();
  constexpr double kByteScale = 1.0 / 255;
  image.rescale = file->Flag("do_rescale", true) ? file->Number("rescale_factor", kByteScale) : 1;
  if (file->Flag("do_normalize", true)) {
    for (const char* key : {"image_mean", "image_std"}) {
      if (!file->Has(key)) return absl::InvalidArgumentError(absl::StrCat(path, ": ", key, " is missing"));
    }
    image.mean = PerChannel(root["image_mean"], "image_mean", 0, &errors);
    image.std = PerChannel(root["image_std"], "image_std", 1, &errors);
  }
  return file->status().ok() ? errors.status : file->status();
}

void ReadImage(JsonSection& root, const std::string& folder, JsonErrors* errors, ExportManifest& manifest) {
  ExportedImagePart& image = *manifest.image;
  JsonSection section = root.Section("image");
  image.size = static_cast<uint32_t>(section.Integer("size", 1, kMaxSide));
  image.channels_last = section.Choice("layout", {"nchw", "nhwc"}) == 1;
  image.normalise = section.Flag("normalise", false);
  const nlohmann::json* const mean = section.Find("mean");
  const nlohmann::json* const deviation = section.Find("std");
  const bool own = mean != nullptr || deviation != nullptr || section.Find("rescale") != nullptr;
  image.rescale = section.Number("rescale", 1);
  if (mean != nullptr) image.mean = PerChannel(*mean, "image.mean", 0, errors);
  if (deviation != nullptr) image.std = PerChannel(*deviation, "image.std", 1, errors);
  section.RefuseUnknown();
  const int64_t least_pixels = manifest.batch.min * image.size * image.size;
  if (least_pixels > kMaxLeastPixels) {
    root.Fail("batch", absl::StrCat("min ", manifest.batch.min, " of images of ", image.size, " x ", image.size,
                                    ": the smallest batch has more than ", kMaxLeastPixels, " pixels"));
  }

  const bool raw = !manifest.inputs.empty() && manifest.inputs[0].type == ElementType::kUint8;
  if (raw && own) section.Fail("rescale", "mean and std are not for uint8 pixels");
  if (!raw && !own && errors->status.ok()) errors->status = TransformOfHub(folder, image);
  if (std::any_of(image.std.begin(), image.std.end(), [](double value) { return !(value > 0); })) {
    section.Fail("std", "must be above 0");
  }
}

}  // namespace

size_t ElementBytes(ElementType type) {
  static constexpr size_t kBytes[] = {1, 4, 8, 4, 2, 2};
  return kBytes[static_cast<size_t>(type)];
}

const char* ElementTypeName(ElementType type) { return kElementTypes[static_cast<size_t>(type)].data(); }

bool IsExportedModel(const std::string& folder) { return Exists(folder + kFileName); }

absl::StatusOr<ExportManifest> ReadExportManifest(const std::string& folder) {
  auto file = JsonFile::Read(folder + kFileName);
  if (!file.ok()) return file.status();
  JsonErrors errors{.path = file->path(), .status = absl::OkStatus()};
  ExportManifest manifest;
  manifest.path = file->path();
  JsonSection root(file->root(), "", &errors);
  // First: a later format may know keys that are errors here.
  root.Integer("format", kFormat, kFormat);
  if (!errors.status.ok()) return errors.status;
  if (root.Choice("kind", {"text", "image"}) == 0) {
    manifest.text.emplace();
  } else {
    manifest.image.emplace();
  }
  ReadModule(root, folder, manifest);
  ReadInputs(root, &errors, manifest);
  ReadOutput(root, manifest);
  manifest.batch = ReadRange(root, "batch", kMaxBatch);
  if (manifest.text) ReadText(root, folder, manifest);
  if (manifest.image) ReadImage(root, folder, &errors, manifest);
  root.RefuseUnknown();
  if (!errors.status.ok()) return errors.status;
  if (!Exists(manifest.module_path)) {
    return absl::NotFoundError(absl::StrCat(manifest.path, ": module.file ", manifest.module_path, " is not there"));
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(manifest.module_path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(manifest.path, ": module.file ", manifest.module_path, " is not a regular file"));
  }
  return manifest;
}

}  // namespace tributary
