#include "engine/libtorch/model_loader.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/encode/conse_labels.h"
#include "engine/libtorch/encode/image_program.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/libtorch/exported/exported_program.h"
#include "engine/libtorch/fuse/fusion_program.h"
#include "engine/libtorch/host_embed.h"
#include "engine/libtorch/output_options.h"
#include "engine/libtorch/self_check.h"
#include "engine/libtorch/weights/content_hash.h"
#include "engine/libtorch/weights/hub_folder.h"
#include "engine/libtorch/weights/mapped_file.h"
#include "engine/prepare/image/image_preparer.h"
#include "engine/prepare/text/text_preparer.h"

namespace tributary {
namespace {

const BatchOptions& BatchOptionsOf(const EngineOptions& options, Modality modality) {
  return options.schedule.modalities[static_cast<size_t>(modality)];
}

const std::vector<PlacedDevice>& DevicesOf(const ModelPlacement& placement, Modality modality) {
  return placement[static_cast<size_t>(modality)];
}

// "fp16", or of replicas that differ "bf16, fp16".
void AddComputeType(ComputeType type, std::string* types) {
  const std::string name(ComputeTypeName(type));
  if (types->find(name) == std::string::npos) absl::StrAppend(types, types->empty() ? "" : ", ", name);
}

struct TextPart {
  TextModelFolder folder;
  std::unique_ptr<TokenizingPreparer> preparer;
  LoadedTextProgram loaded;  // on the first device
};

TextProgramOptions ProgramOptionsOf(const EngineOptions& options, const TextModelOptions& text,
                                    const ProgramDevice& device) {
  const BatchOptions& batch = BatchOptionsOf(options, Modality::kText);
  return {
      .dtype = text.dtype, .device = device, .max_batch_tokens = batch.max_units, .max_batch_items = batch.max_items};
}

absl::StatusOr<TextPart> LoadText(const EngineOptions& options, const TextModelOptions& text,
                                  const ProgramDevice& device) {
  const bool exported = IsExportedModel(text.folder);
  auto folder = exported ? ReadExportedTextFolder(text.folder) : ReadTextModelFolder(text.folder);
  if (!folder.ok()) return folder.status();
  auto preparer = LoadTextPreparer(folder->transformer_folder, text.max_tokens);
  if (!preparer.ok()) return preparer.status();
  auto loaded = LoadTextProgram(*folder, ProgramOptionsOf(options, text, device));
  if (!loaded.ok()) return loaded.status();
  if ((*preparer)->vocabulary_size() > loaded->vocabulary_size) {
    return absl::InvalidArgumentError(absl::StrCat(text.folder, ": the tokenizer has ids up to ",
                                                   (*preparer)->vocabulary_size() - 1, ", config.json's vocabulary is ",
                                                   loaded->vocabulary_size));
  }
  if ((*preparer)->max_tokens() > loaded->max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(text.folder, ": texts of up to ", (*preparer)->max_tokens(),
                                                   " tokens, the encoder takes ", loaded->max_tokens));
  }
  return TextPart{*std::move(folder), *std::move(preparer), *std::move(loaded)};
}

absl::StatusOr<std::vector<TokenSequence>> Tokenise(const TextPreparer& preparer,
                                                    const std::vector<std::string>& sentences) {
  std::vector<TokenSequence> sequences;
  for (const std::string& sentence : sentences) {
    auto tokens = preparer.Prepare({.text = sentence, .token_ids = std::nullopt}, Truncation::kEnd);
    if (!tokens.ok()) return tokens.status();
    sequences.push_back(*std::move(tokens));
  }
  return sequences;
}

// All that the encoder's answer to these sequences depends on, as a key.
absl::StatusOr<std::string> KeyOf(const TextPart& text, const std::vector<TokenSequence>& sequences) {
  auto config = MappedFile::Open(text.folder.transformer_folder + "/config.json");
  if (!config.ok()) return config.status();
  ContentHash hash;
  hash.Add(text.loaded.revision);
  hash.Add((*config)->bytes());
  hash.Add(ComputeTypeName(text.loaded.compute_type));
  for (const Pooling pooling : text.folder.pooling) hash.Add(std::to_string(static_cast<int>(pooling)));
  for (const DenseModule& dense : text.folder.dense) hash.Add(std::to_string(static_cast<int>(dense.activation)));
  for (const TokenSequence& sequence : sequences) {
    hash.Add({reinterpret_cast<const char*>(sequence.ids.data()), sequence.ids.size() * sizeof(int32_t)});
  }
  return hash.Hex();
}

struct ImagePart {
  std::vector<LoadedImageProgram> loaded;  // one a device
  std::string revision;                    // of the weights and the labels
};

absl::StatusOr<ImagePart> LoadExported(const EngineOptions& options, const ImageModelOptions& image,
                                       const ProgramDevice& device) {
  ExportedProgramOptions program = ExportedOptions(options, image.dtype, device);
  const BatchOptions& batch = BatchOptionsOf(options, Modality::kImage);
  auto manifest = ReadExportManifest(image.folder);
  if (manifest.ok() && manifest->image && batch.max_units > 0) {
    const uint64_t units = uint64_t{manifest->image->size} * manifest->image->size;
    program.max_batch_items = static_cast<size_t>(std::clamp<uint64_t>(batch.max_units / units, 1, batch.max_items));
  }
  auto loaded = LoadExportedImage(image.folder, program);
  if (!loaded.ok()) return loaded.status();
  std::string revision = loaded->loaded.revision;
  return ImagePart{std::move(loaded->loaded), std::move(revision), loaded->normalise};
}

absl::StatusOr<ImagePart> LoadImage(const EngineOptions& options, const ImageModelOptions& image, const TextPart& text,
                                    const ModelPlacement& placement) {
  const ProgramDevice& text_device = DevicesOf(placement, Modality::kText).front().device;
  auto sentences = ReadLabelSentences(image.labels, image.label_template);
  if (!sentences.ok()) return sentences.status();
  auto sequences = Tokenise(*text.preparer, *sentences);
  if (!sequences.ok()) return sequences.status();
  auto encoder_key = KeyOf(text, *sequences);
  if (!encoder_key.ok()) return encoder_key.status();
  auto labels = LoadOrComputeLabelVectors(
      *sentences, *encoder_key, options.cache_folder, [&](const std::vector<std::string>& /*the same*/) {
        return EmbedOnHost(*text.loaded.program, text_device, {sequences->begin(), sequences->end()});
      });
  if (!labels.ok()) return labels.status();

  ImageProgramOptions program{
      .dtype = image.dtype, .device = {}, .max_batch_items = 0, .top_classes = image.top_classes};
  const BatchOptions& batch = BatchOptionsOf(options, Modality::kImage);
  if (batch.max_units > 0) {
    const auto image_units = uint64_t{ImagePreprocessing().width} * ImagePreprocessing().height;
    program.max_batch_items =
        static_cast<size_t>(std::clamp<uint64_t>(batch.max_units / image_units, 1, batch.max_items));
  }
  ImagePart part;
  for (const PlacedDevice& placed : DevicesOf(placement, Modality::kImage)) {
    program.device = placed.device;
    auto loaded = LoadImageProgram(image.folder, ImagePreprocessing(), program, &*labels);
    if (!loaded.ok()) return loaded.status();
    part.loaded.push_back(*std::move(loaded));
  }
  ContentHash hash;
  hash.Add(part.loaded.front().revision);
  for (const std::string& sentence : *sentences) hash.Add(sentence);
  part.revision = hash.Hex();
  return part;
}

void AddImage(const EngineOptions& options, ImagePart image, ServedModel* served) {
  ModelInfo& info = served->info;
  info.image_width = info.image_height = image.loaded.image_size;
  info.image_compute_type = std::string(ComputeTypeName(image.loaded.compute_type));
  info.parameter_count += image.loaded.parameter_count;
  info.parameter_bytes += image.loaded.parameter_bytes;
  ContentHash both;
  both.Add(info.revision);
  both.Add(image.revision);
  info.revision = both.Hex();
  served->image_preparer = MakeImagePreparer({.size = image.loaded.image_size}, options.limits);
  served->programs[static_cast<size_t>(Modality::kImage)] = std::move(image.loaded.program);
}

absl::StatusOr<ServedModel> LoadParts(const EngineOptions& options, const ModelOptions& model,
                                      const ModelPlacement& placement) {
  if (model.text.folder.empty()) {
    return absl::InvalidArgumentError(model.image.folder.empty()
                                          ? "text.folder is missing: the model would serve nothing"
                                          : "text.folder is missing: images are placed in the text encoder's space");
  }
  ServedModel served;
  ModelInfo& info = served.info;
  info.name = model.name;
  const auto add_replica = [&served](Modality modality, const PlacedDevice& placed,
                                     std::unique_ptr<BatchProgram> program) {
    served.replicas[static_cast<size_t>(modality)].push_back({placed.index, std::move(program)});
  };

  const std::vector<PlacedDevice>& text_devices = DevicesOf(placement, Modality::kText);
  auto text = LoadText(options, model.text, text_devices.front().device);
  if (!text.ok()) return text.status();
  info.revision = text->loaded.revision;
  info.dimensions = text->loaded.program->OutputDimension();
  info.max_tokens = static_cast<uint32_t>(text->preparer->max_tokens());
  info.vocabulary_size = static_cast<uint32_t>(text->preparer->vocabulary_size());
  info.normalised_by_default = text->folder.normalise;
  AddComputeType(text->loaded.compute_type, &info.compute_type);
  info.parameter_count = text->loaded.parameter_count;
  info.parameter_bytes = text->loaded.parameter_bytes;
  if (auto status = SetOutputs(model, text->folder, &info); !status.ok()) return status;
  served.prompts = text->folder.prompts;

  if (!model.image.folder.empty()) {
    auto image = LoadImage(options, model.image, *text, placement);
    if (!image.ok()) return image.status();
    info.image_width = image->loaded.front().image_width;
    info.image_height = image->loaded.front().image_height;
    info.parameter_count += image->loaded.front().parameter_count;
    ContentHash both;
    both.Add(info.revision);
    both.Add(image->revision);
    info.revision = both.Hex();
    served.image_preparer = MakeImagePreparer(ImagePreprocessing(), options.limits);
    for (size_t i = 0; i < image->loaded.size(); ++i) {
      AddComputeType(image->loaded[i].compute_type, &info.image_compute_type);
      info.parameter_bytes += image->loaded[i].parameter_bytes;
      add_replica(Modality::kImage, DevicesOf(placement, Modality::kImage)[i], std::move(image->loaded[i].program));
    }

    if (!model.fusion.kind.empty()) {
      for (const PlacedDevice& placed : DevicesOf(placement, Modality::kFusion)) {
        auto fusion = MakeFusionProgram({.fusion = model.fusion,
                                         .device = placed.device,
                                         .dimension = info.dimensions,
                                         .max_batch_items = BatchOptionsOf(options, Modality::kFusion).max_items});
        if (!fusion.ok()) return fusion.status();
        add_replica(Modality::kFusion, placed, *std::move(fusion));
      }
      info.fusion = model.fusion.kind;
    }
  }
  add_replica(Modality::kText, text_devices.front(), std::move(text->loaded.program));
  for (size_t i = 1; i < text_devices.size(); ++i) {
    auto more = LoadTextProgram(text->folder, ProgramOptionsOf(options, model.text, text_devices[i].device));
    if (!more.ok()) return more.status();
    AddComputeType(more->compute_type, &info.compute_type);
    info.parameter_bytes += more->parameter_bytes;
    add_replica(Modality::kText, text_devices[i], std::move(more->program));
  }
  served.text_preparer = std::move(text->preparer);
  return served;
}

}  // namespace

absl::StatusOr<ServedModel> LoadModel(const EngineOptions& options, const ModelOptions& model,
                                      const ModelPlacement& placement) {
  auto served = LoadParts(options, model, placement);
  absl::Status status = served.status();
  if (status.ok()) status = CheckAgainstReference(model.self_check, placement, *served);
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat("model '", model.name, "': ", status.message()));
  return served;
}

}  // namespace tributary
