#include "engine/libtorch/model_loader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/image_families.h"
#include "engine/libtorch/encode/text_families.h"
#include "engine/libtorch/exported/exported_program.h"
#include "engine/libtorch/fuse/fusion_program.h"
#include "engine/libtorch/image_part.h"
#include "engine/libtorch/output_options.h"
#include "engine/libtorch/self_check.h"
#include "engine/libtorch/text_part.h"
#include "engine/libtorch/weights/content_hash.h"
#include "engine/libtorch/weights/json_file.h"
#include "engine/prepare/image/image_preparer.h"

namespace tributary {
namespace {

// "fp16", or of replicas that differ "bf16, fp16".
void AddComputeType(ComputeType type, std::string* types) {
  const std::string name(ComputeTypeName(type));
  if (types->find(name) == std::string::npos) absl::StrAppend(types, types->empty() ? "" : ", ", name);
}

// Hands over the programs of one modality; parameters are counted once, their memory for every replica.
template <typename Loaded>
void ServeReplicas(Modality modality, const ModelPlacement& placement, std::vector<Loaded> replicas,
                   std::vector<std::unique_ptr<BatchProgram>> fallbacks, std::string* compute_types,
                   ServedModel& served) {
  const auto m = static_cast<size_t>(modality);
  served.info.parameter_count += replicas.front().parameter_count;
  for (size_t i = 0; i < replicas.size(); ++i) {
    AddComputeType(replicas[i].compute_type, compute_types);
    served.info.parameter_bytes += replicas[i].parameter_bytes;
    served.replicas[m].push_back({placement[m][i].index, std::move(replicas[i].program)});
  }
  for (size_t i = 0; i < fallbacks.size(); ++i) {
    served.fallbacks[m].push_back({placement[m][i].index, std::move(fallbacks[i])});
  }
}

absl::Status ServeText(const ModelOptions& model, const ModelPlacement& placement, TextPart text, ServedModel& served) {
  ModelInfo& info = served.info;
  info.revision = text.replicas.front().revision;
  info.dimensions = text.replicas.front().program->OutputDimension();
  info.max_tokens = static_cast<uint32_t>(text.preparer->max_tokens());
  info.vocabulary_size = static_cast<uint32_t>(text.preparer->vocabulary_size());
  info.normalised_by_default = text.folder.normalise;
  served.text_preparer = std::move(text.preparer);
  ServeReplicas(Modality::kText, placement, std::move(text.replicas), std::move(text.fallbacks), &info.compute_type,
                served);
  served.prompts = text.folder.prompts;
  return SetOutputs(model, text.folder, &info);
}

// After ServeText, where there are texts. Vectors of one model are of one size: they share a space.
absl::Status ServeImages(const EngineOptions& options, const ModelOptions& model, const ModelPlacement& placement,
                         ImagePart image, ServedModel& served) {
  ModelInfo& info = served.info;
  const uint32_t dimensions = image.replicas.front().program->OutputDimension();
  if (served.text_preparer == nullptr) {
    info.normalised_by_default = image.normalise;
  } else if (dimensions != info.dimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat("images have vectors of ", dimensions, " numbers, texts of ", info.dimensions,
                     ": they share no space. Serve them as two models, or give image.labels"));
  }
  info.dimensions = dimensions;
  info.image_width = image.replicas.front().image_width;
  info.image_height = image.replicas.front().image_height;
  if (info.revision.empty()) {
    info.revision = image.revision;
  } else {
    ContentHash both;
    both.Add(info.revision);
    both.Add(image.revision);
    info.revision = both.Hex();
  }
  served.image_preparer = MakeImagePreparer(image.preprocessing, options.limits);
  ServeReplicas(Modality::kImage, placement, std::move(image.replicas), std::move(image.fallbacks),
                &info.image_compute_type, served);
  return served.text_preparer == nullptr ? SetOutputs(model, /*folder=*/{}, &info) : absl::OkStatus();
}

absl::Status ServePairs(const EngineOptions& options, const FusionOptions& fusion, const ModelPlacement& placement,
                        ServedModel& served) {
  const size_t max_items = options.schedule.modalities[static_cast<size_t>(Modality::kFusion)].max_items;
  ModelInfo& info = served.info;
  const std::vector<PlacedDevice>& devices = DevicesOf(placement, Modality::kFusion);
  for (const PlacedDevice& placed : devices) {
    auto loaded = LoadFusionProgram(
        {.fusion = fusion, .device = placed.device, .dimension = info.dimensions, .max_batch_items = max_items});
    if (!loaded.ok()) return loaded.status();
    info.parameter_bytes += loaded->parameter_bytes;
    served.replicas[static_cast<size_t>(Modality::kFusion)].push_back({placed.index, std::move(loaded->program)});
    if (placed.index != devices.front().index) continue;
    info.parameter_count += loaded->parameter_count;
    if (loaded->revision.empty()) continue;
    ContentHash all;
    all.Add(info.revision);
    all.Add(loaded->revision);
    info.revision = all.Hex();
  }
  served.info.fusion = fusion.kind;
  return absl::OkStatus();
}

absl::StatusOr<ServedModel> LoadParts(const EngineOptions& options, const ModelOptions& model,
                                      const ModelPlacement& placement) {
  auto parts = FindParts(model);
  if (!parts.ok()) return parts.status();
  ServedModel served;
  served.info.name = model.name;
  std::optional<TextPart> text;
  if (!parts->text.empty()) {
    auto loaded = LoadTextPart(options, model.text, parts->text, DevicesOf(placement, Modality::kText));
    if (!loaded.ok()) return loaded.status();
    text = *std::move(loaded);
  }
  std::optional<ImagePart> image;
  if (!parts->image.empty()) {
    auto loaded = LoadImagePart(options, model.image, parts->image, text ? &*text : nullptr, placement);
    if (!loaded.ok()) return loaded.status();
    image = *std::move(loaded);
  }
  const bool pairs = text && image && !model.fusion.kind.empty();
  if (text && text->folder.transformer_folder == parts->image) {
    served.info.logit_scale = text->replicas.front().logit_scale;
    served.info.logit_bias = text->replicas.front().logit_bias;
  }
  absl::Status status;
  if (text) status = ServeText(model, placement, *std::move(text), served);
  if (status.ok() && image) status = ServeImages(options, model, placement, *std::move(image), served);
  if (status.ok() && pairs) status = ServePairs(options, model.fusion, placement, served);
  if (status.ok()) status = CheckAgainstReference(model.self_check, placement, served);
  if (!status.ok()) return status;
  return served;
}

}  // namespace

absl::StatusOr<PartFolders> FindParts(const ModelOptions& model) {
  PartFolders parts{.text = model.text.folder, .image = model.image.folder};
  if (model.folder.empty()) {
    if (!parts.text.empty() || !parts.image.empty()) return parts;
    return absl::InvalidArgumentError("neither folder, text.folder nor image.folder is given: nothing to serve");
  }
  if (IsExportedModel(model.folder)) {
    auto manifest = ReadExportManifest(model.folder);
    if (!manifest.ok()) return manifest.status();
    std::string& part = manifest->text ? parts.text : parts.image;
    if (part.empty()) part = model.folder;
    return parts;
  }
  // modules.json may put the model into a folder of its own.
  auto whole = ReadTextModelFolder(model.folder);
  if (!whole.ok()) return whole.status();
  auto config = JsonFile::Read(whole->transformer_folder + "/config.json");
  if (!config.ok()) return config.status();
  const std::string type = config->Text("model_type", config->Text("architecture", ""));
  if (!config->status().ok()) return config->status();
  const auto is_one_of = [&](const auto& families) {
    return std::any_of(families.begin(), families.end(), [&](const auto& family) { return family.model_type == type; });
  };
  const bool has_text = is_one_of(TextFamilies());
  const bool has_image = is_one_of(ImageFamilies());
  if (!has_text && !has_image) {
    config->Fail(absl::StrCat("model_type '", type, "' is neither a text nor an image model that is served",
                              type == kNaflexModelType ? std::string(kNaflexAdvice) : ""));
    return config->status();
  }
  if (has_text && parts.text.empty()) parts.text = model.folder;
  if (has_image && parts.image.empty()) parts.image = whole->transformer_folder;
  return parts;
}

absl::StatusOr<ServedModel> LoadModel(const EngineOptions& options, const ModelOptions& model,
                                      const ModelPlacement& placement) {
  auto served = GuardTorch([&] { return LoadParts(options, model, placement); });
  if (!served.ok()) {
    return absl::Status(served.status().code(), absl::StrCat("model '", model.name, "': ", served.status().message()));
  }
  return served;
}

}  // namespace tributary
