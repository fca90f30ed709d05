#include "engine/libtorch/model_loader.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/host_run.h"
#include "engine/libtorch/encode/conse_labels.h"
#include "engine/libtorch/encode/image_program.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/libtorch/fuse/fusion_program.h"
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

struct TextPart {
  TextModelFolder folder;
  std::unique_ptr<TokenizingPreparer> preparer;
  LoadedTextProgram loaded;
};

absl::StatusOr<TextPart> LoadText(const EngineOptions& options, const TextModelOptions& text,
                                  const ProgramDevice& device) {
  auto folder = ReadTextModelFolder(text.folder);
  if (!folder.ok()) return folder.status();
  auto preparer = LoadTextPreparer(folder->transformer_folder, text.max_tokens);
  if (!preparer.ok()) return preparer.status();
  const BatchOptions& batch = BatchOptionsOf(options, Modality::kText);
  auto loaded = LoadTextProgram(
      *folder,
      {.dtype = text.dtype, .device = device, .max_batch_tokens = batch.max_units, .max_batch_items = batch.max_items});
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

// The model's own answer to texts, in batches its program takes.
absl::StatusOr<std::vector<std::vector<float>>> EmbedOnHost(const TextPart& text, const ProgramDevice& device,
                                                            const std::vector<TokenSequence>& sequences) {
  const BatchProgram& program = *text.loaded.program;
  std::vector<std::byte> slot(program.MaxInputBytes());
  std::vector<std::vector<float>> vectors;
  vectors.reserve(sequences.size());
  Batch batch;
  const auto run = [&]() -> absl::Status {
    auto staged = program.Stage(batch, slot);
    if (!staged.ok()) return staged.status();
    auto rows = RunOnHost(program, device, *staged, slot);
    if (!rows.ok()) return rows.status();
    const size_t dimension = program.OutputDimension();
    for (size_t i = 0; i < batch.items.size(); ++i) {
      const size_t row = staged->row_of_item.empty() ? i : staged->row_of_item[i];
      const auto first = rows->begin() + static_cast<std::ptrdiff_t>(row * dimension);
      vectors.emplace_back(first, first + static_cast<std::ptrdiff_t>(dimension));
    }
    batch = Batch();
    return absl::OkStatus();
  };
  for (const TokenSequence& sequence : sequences) {
    const size_t units = sequence.ids.size();
    if (!batch.items.empty() &&
        (batch.useful_units + units > program.MaxBatchUnits() || batch.items.size() == program.MaxBatchItems())) {
      if (auto status = run(); !status.ok()) return status;
    }
    auto item = std::make_unique<WorkItem>(nullptr);
    item->units = units;
    item->prepared = sequence;
    batch.useful_units += units;
    batch.items.push_back(std::move(item));
  }
  if (!batch.items.empty()) {
    if (auto status = run(); !status.ok()) return status;
  }
  return vectors;
}

struct ImagePart {
  LoadedImageProgram loaded;
  std::string revision;  // of the weights and the labels
};

absl::StatusOr<ImagePart> LoadImage(const EngineOptions& options, const ImageModelOptions& image, const TextPart& text,
                                    const ProgramDevice& device) {
  auto sentences = ReadLabelSentences(image.labels, image.label_template);
  if (!sentences.ok()) return sentences.status();
  auto sequences = Tokenise(*text.preparer, *sentences);
  if (!sequences.ok()) return sequences.status();
  auto encoder_key = KeyOf(text, *sequences);
  if (!encoder_key.ok()) return encoder_key.status();
  auto labels = LoadOrComputeLabelVectors(
      *sentences, *encoder_key, options.cache_folder,
      [&](const std::vector<std::string>& /*the same*/) { return EmbedOnHost(text, device, *sequences); });
  if (!labels.ok()) return labels.status();

  ImageProgramOptions program{
      .dtype = image.dtype, .device = device, .max_batch_items = 0, .top_classes = image.top_classes};
  const BatchOptions& batch = BatchOptionsOf(options, Modality::kImage);
  if (batch.max_units > 0) {
    const auto image_units = uint64_t{ImagePreprocessing().width} * ImagePreprocessing().height;
    program.max_batch_items =
        static_cast<size_t>(std::clamp<uint64_t>(batch.max_units / image_units, 1, batch.max_items));
  }
  auto loaded = LoadImageProgram(image.folder, ImagePreprocessing(), program, &*labels);
  if (!loaded.ok()) return loaded.status();
  ContentHash hash;
  hash.Add(loaded->revision);
  for (const std::string& sentence : *sentences) hash.Add(sentence);
  return ImagePart{*std::move(loaded), hash.Hex()};
}

absl::StatusOr<ServedModel> LoadParts(const EngineOptions& options, const ModelOptions& model,
                                      const ProgramDevice& device) {
  if (model.text.folder.empty()) {
    return absl::InvalidArgumentError(model.image.folder.empty()
                                          ? "text.folder is missing: the model would serve nothing"
                                          : "text.folder is missing: images are placed in the text encoder's space");
  }
  ServedModel served;
  ModelInfo& info = served.info;
  info.name = model.name;

  auto text = LoadText(options, model.text, device);
  if (!text.ok()) return text.status();
  info.revision = text->loaded.revision;
  info.dimensions = text->loaded.program->OutputDimension();
  info.max_tokens = static_cast<uint32_t>(text->preparer->max_tokens());
  info.vocabulary_size = static_cast<uint32_t>(text->preparer->vocabulary_size());
  info.normalised_by_default = text->folder.normalise;
  info.compute_type = std::string(ComputeTypeName(text->loaded.compute_type));
  info.parameter_count = text->loaded.parameter_count;
  info.parameter_bytes = text->loaded.parameter_bytes;

  if (!model.image.folder.empty()) {
    auto image = LoadImage(options, model.image, *text, device);
    if (!image.ok()) return image.status();
    info.image_width = image->loaded.image_width;
    info.image_height = image->loaded.image_height;
    info.image_compute_type = std::string(ComputeTypeName(image->loaded.compute_type));
    info.parameter_count += image->loaded.parameter_count;
    info.parameter_bytes += image->loaded.parameter_bytes;
    ContentHash both;
    both.Add(info.revision);
    both.Add(image->revision);
    info.revision = both.Hex();
    served.image_preparer = MakeImagePreparer(ImagePreprocessing(), options.limits);
    served.programs[static_cast<size_t>(Modality::kImage)] = std::move(image->loaded.program);

    if (!model.fusion.kind.empty()) {
      auto fusion = MakeFusionProgram({.fusion = model.fusion,
                                       .device = device,
                                       .dimension = info.dimensions,
                                       .max_batch_items = BatchOptionsOf(options, Modality::kFusion).max_items});
      if (!fusion.ok()) return fusion.status();
      info.fusion = model.fusion.kind;
      served.programs[static_cast<size_t>(Modality::kFusion)] = *std::move(fusion);
    }
  }
  served.text_preparer = std::move(text->preparer);
  served.programs[static_cast<size_t>(Modality::kText)] = std::move(text->loaded.program);
  return served;
}

}  // namespace

absl::StatusOr<ServedModel> LoadModel(const EngineOptions& options, const ModelOptions& model,
                                      const ProgramDevice& device) {
  auto served = LoadParts(options, model, device);
  if (!served.ok()) {
    return absl::Status(served.status().code(), absl::StrCat("model '", model.name, "': ", served.status().message()));
  }
  return served;
}

}  // namespace tributary
