#include "engine/libtorch/model_loader.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/host_run.h"
#include "engine/libtorch/encode/conse_labels.h"
#include "engine/libtorch/encode/image_families.h"
#include "engine/libtorch/encode/image_program.h"
#include "engine/libtorch/encode/text_families.h"
#include "engine/libtorch/encode/text_program.h"
#include "engine/libtorch/fuse/fusion_program.h"
#include "engine/libtorch/weights/content_hash.h"
#include "engine/libtorch/weights/hub_folder.h"
#include "engine/libtorch/weights/json_file.h"
#include "engine/libtorch/weights/mapped_file.h"
#include "engine/prepare/image/image_preparer.h"
#include "engine/prepare/image/image_preprocessing.h"
#include "engine/prepare/image/preprocessor_config.h"
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

absl::StatusOr<TextPart> LoadText(const EngineOptions& options, const TextModelOptions& text, const std::string& place,
                                  const ProgramDevice& device) {
  auto folder = ReadTextModelFolder(place);
  if (!folder.ok()) return folder.status();
  auto preparer = LoadTextPreparer(folder->transformer_folder, text.max_tokens);
  if (!preparer.ok()) return preparer.status();
  const BatchOptions& batch = BatchOptionsOf(options, Modality::kText);
  auto loaded = LoadTextProgram(
      *folder,
      {.dtype = text.dtype, .device = device, .max_batch_tokens = batch.max_units, .max_batch_items = batch.max_items});
  if (!loaded.ok()) return loaded.status();
  if ((*preparer)->vocabulary_size() > loaded->vocabulary_size) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": the tokenizer has ids up to ",
                                                   (*preparer)->vocabulary_size() - 1, ", config.json's vocabulary is ",
                                                   loaded->vocabulary_size));
  }
  if ((*preparer)->max_tokens() > loaded->max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": texts of up to ", (*preparer)->max_tokens(),
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
  hash.Add(text.folder.has_pooling ? "pooling" : "own or mean");
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

// Where the parts are; empty: the model has no such part.
struct PartFolders {
  std::string text;
  std::string image;
};

absl::StatusOr<PartFolders> FindParts(const ModelOptions& model) {
  PartFolders parts{.text = model.text.folder, .image = model.image.folder};
  if (model.folder.empty()) return parts;
  // modules.json may put the model into a folder of its own.
  auto whole = ReadTextModelFolder(model.folder);
  if (!whole.ok()) return whole.status();
  auto config = JsonFile::Read(whole->transformer_folder + "/config.json");
  if (!config.ok()) return config.status();
  const std::string type = config->Text("model_type", config->Text("architecture", ""));
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

// The labels' sentences and their vectors, made by the model's own texts.
struct Labels {
  std::vector<std::string> sentences;
  LabelVectors vectors;
};

absl::StatusOr<Labels> LoadLabels(const EngineOptions& options, const ImageModelOptions& image, const TextPart& text,
                                  const ProgramDevice& device) {
  auto sentences = ReadLabelSentences(image.labels, image.label_template);
  if (!sentences.ok()) return sentences.status();
  auto sequences = Tokenise(*text.preparer, *sentences);
  if (!sequences.ok()) return sequences.status();
  auto encoder_key = KeyOf(text, *sequences);
  if (!encoder_key.ok()) return encoder_key.status();
  auto vectors = LoadOrComputeLabelVectors(
      *sentences, *encoder_key, options.cache_folder,
      [&](const std::vector<std::string>& /*the same*/) { return EmbedOnHost(text, device, *sequences); });
  if (!vectors.ok()) return vectors.status();
  return Labels{.sentences = *std::move(sentences), .vectors = *std::move(vectors)};
}

// EfficientNet-Lite0 of the PyPI package comes without any configuration.
absl::StatusOr<ImagePreprocessing> ReadPreprocessing(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder + "/config.json", ignored)) return ImagePreprocessing();
  return ReadPreprocessorConfig(folder);
}

struct ImagePart {
  ImagePreprocessing preprocessing;
  LoadedImageProgram loaded;
  std::string revision;  // of the weights and the labels
};

// text: null where the model serves none.
absl::StatusOr<ImagePart> LoadImage(const EngineOptions& options, const ImageModelOptions& image,
                                    const std::string& folder, const TextPart* text, const ProgramDevice& device) {
  auto preprocessing = ReadPreprocessing(folder);
  if (!preprocessing.ok()) return preprocessing.status();
  std::optional<Labels> labels;
  if (!image.labels.empty()) {
    if (text == nullptr) {
      return absl::InvalidArgumentError("image.labels is given, but the model has no texts to place images among");
    }
    auto loaded = LoadLabels(options, image, *text, device);
    if (!loaded.ok()) return loaded.status();
    labels = *std::move(loaded);
  }

  ImageProgramOptions program{
      .dtype = image.dtype, .device = device, .max_batch_items = 0, .top_classes = image.top_classes};
  const BatchOptions& batch = BatchOptionsOf(options, Modality::kImage);
  if (batch.max_units > 0) {
    const auto image_units = uint64_t{preprocessing->width} * preprocessing->height;
    program.max_batch_items =
        static_cast<size_t>(std::clamp<uint64_t>(batch.max_units / image_units, 1, batch.max_items));
  }
  auto loaded = LoadImageProgram(folder, *preprocessing, program, labels ? &labels->vectors : nullptr);
  if (!loaded.ok()) return loaded.status();
  std::string revision = loaded->revision;
  if (labels) {
    ContentHash hash;
    hash.Add(revision);
    for (const std::string& sentence : labels->sentences) hash.Add(sentence);
    revision = hash.Hex();
  }
  return ImagePart{*preprocessing, *std::move(loaded), std::move(revision)};
}

void ServeText(TextPart text, ServedModel& served) {
  ModelInfo& info = served.info;
  info.revision = text.loaded.revision;
  info.dimensions = text.loaded.program->OutputDimension();
  info.max_tokens = static_cast<uint32_t>(text.preparer->max_tokens());
  info.vocabulary_size = static_cast<uint32_t>(text.preparer->vocabulary_size());
  info.normalised_by_default = text.folder.normalise;
  info.compute_type = std::string(ComputeTypeName(text.loaded.compute_type));
  info.parameter_count = text.loaded.parameter_count;
  info.parameter_bytes = text.loaded.parameter_bytes;
  served.text_preparer = std::move(text.preparer);
  served.programs[static_cast<size_t>(Modality::kText)] = std::move(text.loaded.program);
}

// After ServeText, where there are texts. Vectors of one model are of one size: they share a space.
absl::Status ServeImages(const EngineOptions& options, ImagePart image, ServedModel& served) {
  ModelInfo& info = served.info;
  const uint32_t dimensions = image.loaded.program->OutputDimension();
  if (served.text_preparer != nullptr && dimensions != info.dimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat("images have vectors of ", dimensions, " numbers, texts of ", info.dimensions,
                     ": they share no space. Serve them as two models, or give image.labels"));
  }
  info.dimensions = dimensions;
  info.image_width = image.loaded.image_width;
  info.image_height = image.loaded.image_height;
  info.image_compute_type = std::string(ComputeTypeName(image.loaded.compute_type));
  info.parameter_count += image.loaded.parameter_count;
  info.parameter_bytes += image.loaded.parameter_bytes;
  if (info.revision.empty()) {
    info.revision = image.revision;
  } else {
    ContentHash both;
    both.Add(info.revision);
    both.Add(image.revision);
    info.revision = both.Hex();
  }
  served.image_preparer = MakeImagePreparer(image.preprocessing, options.limits);
  served.programs[static_cast<size_t>(Modality::kImage)] = std::move(image.loaded.program);
  return absl::OkStatus();
}

absl::StatusOr<ServedModel> LoadParts(const EngineOptions& options, const ModelOptions& model,
                                      const ProgramDevice& device) {
  auto parts = FindParts(model);
  if (!parts.ok()) return parts.status();
  if (parts->text.empty() && parts->image.empty()) {
    return absl::InvalidArgumentError("neither folder, text.folder nor image.folder is given: nothing to serve");
  }
  ServedModel served;
  served.info.name = model.name;
  std::optional<TextPart> text;
  if (!parts->text.empty()) {
    auto loaded = LoadText(options, model.text, parts->text, device);
    if (!loaded.ok()) return loaded.status();
    text = *std::move(loaded);
  }
  std::optional<ImagePart> image;
  if (!parts->image.empty()) {
    auto loaded = LoadImage(options, model.image, parts->image, text ? &*text : nullptr, device);
    if (!loaded.ok()) return loaded.status();
    image = *std::move(loaded);
  }
  const bool has_pairs = text && image;
  if (text && text->folder.transformer_folder == parts->image) {
    served.info.logit_scale = text->loaded.logit_scale;
    served.info.logit_bias = text->loaded.logit_bias;
  }
  if (text) ServeText(*std::move(text), served);
  if (image) {
    if (auto status = ServeImages(options, *std::move(image), served); !status.ok()) return status;
  }
  if (has_pairs && !model.fusion.kind.empty()) {
    auto fusion = MakeFusionProgram({.fusion = model.fusion,
                                     .device = device,
                                     .dimension = served.info.dimensions,
                                     .max_batch_items = BatchOptionsOf(options, Modality::kFusion).max_items});
    if (!fusion.ok()) return fusion.status();
    served.info.fusion = model.fusion.kind;
    served.programs[static_cast<size_t>(Modality::kFusion)] = *std::move(fusion);
  }
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
