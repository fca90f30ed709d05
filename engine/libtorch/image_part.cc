#include "engine/libtorch/image_part.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/files/mapped_file.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/encode/conse_labels.h"
#include "engine/libtorch/exported/exported_program.h"
#include "engine/libtorch/host_embed.h"
#include "engine/libtorch/lazy_program.h"
#include "engine/libtorch/weights/content_hash.h"
#include "engine/prepare/image/preprocessor_config.h"

namespace tributary {
namespace {

// The labels' sentences and their vectors, made by the model's own texts.
struct Labels {
  std::vector<std::string> sentences;
  LabelVectors vectors;
};

absl::StatusOr<std::vector<Prepared>> Tokenise(const TextPreparer& preparer,
                                               const std::vector<std::string>& sentences) {
  std::vector<Prepared> prepared;
  for (const std::string& sentence : sentences) {
    auto tokens = preparer.Prepare({.text = sentence, .token_ids = std::nullopt}, Truncation::kEnd);
    if (!tokens.ok()) return tokens.status();
    prepared.emplace_back(*std::move(tokens));
  }
  return prepared;
}

// All that the encoder's answer to these sequences depends on, as a key.
absl::StatusOr<std::string> KeyOf(const TextPart& text, const std::vector<Prepared>& sequences) {
  auto config = MappedFile::Open(text.folder.transformer_folder + "/config.json");
  if (!config.ok()) return config.status();
  ContentHash hash;
  hash.Add(text.replicas.front().revision);
  hash.Add((*config)->bytes());
  hash.Add(ComputeTypeName(text.replicas.front().compute_type));
  hash.Add(text.folder.has_pooling ? "pooling" : "own or mean");
  for (const Pooling pooling : text.folder.pooling) hash.Add(std::to_string(static_cast<int>(pooling)));
  for (const DenseModule& dense : text.folder.dense) hash.Add(std::to_string(static_cast<int>(dense.activation)));
  for (const Prepared& sequence : sequences) {
    const std::vector<int32_t>& ids = std::get<TokenSequence>(sequence).ids;
    hash.Add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
  }
  return hash.Hex();
}

absl::StatusOr<Labels> LoadLabels(const EngineOptions& options, const ImageModelOptions& image, const TextPart& text,
                                  const ProgramDevice& text_device) {
  auto sentences = ReadLabelSentences(image.labels, image.label_template);
  if (!sentences.ok()) return sentences.status();
  auto sequences = Tokenise(*text.preparer, *sentences);
  if (!sequences.ok()) return sequences.status();
  auto encoder_key = KeyOf(text, *sequences);
  if (!encoder_key.ok()) return encoder_key.status();
  auto vectors = LoadOrComputeLabelVectors(
      *sentences, *encoder_key, options.cache_folder, [&](const std::vector<std::string>& /*the same*/) {
        return EmbedOnHost(*text.replicas.front().program, text_device, *sequences);
      });
  if (!vectors.ok()) return vectors.status();
  return Labels{.sentences = *std::move(sentences), .vectors = *std::move(vectors)};
}

// Images of a batch within the configured pixels; 0: the program's own default.
size_t MaxBatchItems(const EngineOptions& options, uint32_t width, uint32_t height) {
  const BatchOptions& batch = options.schedule.modalities[static_cast<size_t>(Modality::kImage)];
  if (batch.max_units == 0) return 0;
  return static_cast<size_t>(std::clamp<uint64_t>(batch.max_units / (uint64_t{width} * height), 1, batch.max_items));
}

absl::StatusOr<ImagePart> LoadExportedPart(const EngineOptions& options, const ImageModelOptions& image,
                                           const std::string& folder, const std::vector<PlacedDevice>& devices) {
  auto manifest = ReadExportManifest(folder);
  if (!manifest.ok()) return manifest.status();
  ImagePart part;
  std::error_code ignored;
  if (std::filesystem::exists(folder + "/preprocessor_config.json", ignored)) {
    auto preprocessing = ReadPreprocessorConfig(folder);
    if (!preprocessing.ok()) return preprocessing.status();
    part.preprocessing = *preprocessing;
  }
  const uint32_t size = manifest->image ? manifest->image->size : part.preprocessing.width;
  for (const PlacedDevice& placed : devices) {
    ExportedProgramOptions program = ExportedOptionsFor(options, image.dtype, placed.device);
    program.max_batch_items = MaxBatchItems(options, size, size);
    auto loaded = LoadExportedImage(folder, program);
    if (!loaded.ok()) return loaded.status();
    part.normalise = loaded->normalise;
    part.replicas.push_back(std::move(loaded->loaded));
  }
  const bool square = part.preprocessing.width == part.preprocessing.height;
  if (part.preprocessing.resize.mode == ResizeMode::kCropFirst) {
    part.preprocessing.width = part.preprocessing.height = size;
  } else if (!square || part.preprocessing.width != size) {
    return absl::InvalidArgumentError(absl::StrCat(folder, "/preprocessor_config.json: brings images to ",
                                                   part.preprocessing.width, " x ", part.preprocessing.height,
                                                   " pixels, tributary.json says ", size, " x ", size));
  }
  part.revision = part.replicas.front().revision;
  return part;
}

// EfficientNet-Lite0 of the PyPI package comes without any configuration.
absl::StatusOr<ImagePreprocessing> ReadPreprocessing(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder + "/config.json", ignored)) return ImagePreprocessing();
  return ReadPreprocessorConfig(folder);
}

}  // namespace

absl::StatusOr<ImagePart> LoadImagePart(const EngineOptions& options, const ImageModelOptions& image,
                                        const std::string& folder, const TextPart* text,
                                        const ModelPlacement& placement) {
  const std::vector<PlacedDevice>& devices = DevicesOf(placement, Modality::kImage);
  if (IsExportedModel(folder)) {
    if (image.labels.empty()) return LoadExportedPart(options, image, folder, devices);
    return absl::InvalidArgumentError(absl::StrCat(folder, ": an exported model takes no image.labels"));
  }
  auto preprocessing = ReadPreprocessing(folder);
  if (!preprocessing.ok()) return preprocessing.status();
  std::optional<Labels> labels;
  if (!image.labels.empty()) {
    if (text == nullptr) {
      return absl::InvalidArgumentError("image.labels is given, but the model has no texts to place images among");
    }
    auto loaded = LoadLabels(options, image, *text, DevicesOf(placement, Modality::kText).front().device);
    if (!loaded.ok()) return loaded.status();
    labels = *std::move(loaded);
  }

  ImagePart part{.preprocessing = *preprocessing, .replicas = {}, .fallbacks = {}, .revision = {}};
  ImageProgramOptions program{.dtype = image.dtype,
                              .device = {},
                              .max_batch_items = MaxBatchItems(options, preprocessing->width, preprocessing->height),
                              .top_classes = image.top_classes};
  for (const PlacedDevice& placed : devices) {
    program.device = placed.device;
    auto loaded = LoadImageProgram(folder, *preprocessing, program, labels ? &labels->vectors : nullptr);
    if (!loaded.ok()) return loaded.status();
    if (loaded->compute_type != ComputeType::kFp32) {
      ImageProgramOptions as_fp32 = program;
      as_fp32.dtype = "fp32";
      as_fp32.warm = false;
      as_fp32.max_batch_items = loaded->program->MaxBatchItems();
      const auto vectors = labels ? std::optional(labels->vectors) : std::nullopt;
      part.fallbacks.push_back(std::make_unique<LazyProgram>(
          *loaded->program,
          [folder, as_fp32, vectors, used = *preprocessing]() -> absl::StatusOr<std::unique_ptr<BatchProgram>> {
            InitTorchThread();
            auto again = LoadImageProgram(folder, used, as_fp32, vectors ? &*vectors : nullptr);
            if (!again.ok()) return again.status();
            SynchroniseDevice(as_fp32.device);  // it was not loaded on the stream that it runs on
            return std::move(again->program);
          }));
    }
    part.replicas.push_back(*std::move(loaded));
  }
  // All or none: a retry may go to any device.
  if (part.fallbacks.size() != part.replicas.size()) part.fallbacks.clear();
  part.revision = part.replicas.front().revision;
  if (labels) {
    ContentHash hash;
    hash.Add(part.revision);
    for (const std::string& sentence : labels->sentences) hash.Add(sentence);
    part.revision = hash.Hex();
  }
  return part;
}

}  // namespace tributary
