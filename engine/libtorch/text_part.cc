#include "engine/libtorch/text_part.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/worker_thread.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/exported/exported_program.h"
#include "engine/libtorch/lazy_program.h"

namespace tributary {
namespace {

absl::StatusOr<LoadedTextProgram> LoadReplica(const EngineOptions& options, const TextModelOptions& text,
                                              const std::string& place, const TextModelFolder& folder, bool exported,
                                              const ProgramDevice& device) {
  const BatchOptions& batch = options.schedule.modalities[static_cast<size_t>(Modality::kText)];
  if (exported) {
    ExportedProgramOptions program = ExportedOptionsFor(options, text.dtype, device);
    program.max_batch_tokens = batch.max_units;
    program.max_batch_items = batch.max_items;
    return LoadExportedText(place, folder, program);
  }
  return LoadTextProgram(
      folder,
      {.dtype = text.dtype, .device = device, .max_batch_tokens = batch.max_units, .max_batch_items = batch.max_items});
}

std::unique_ptr<BatchProgram> MakeFallback(const EngineOptions& options, const TextModelFolder& folder,
                                           const BatchProgram& replica, const ProgramDevice& device) {
  const BatchOptions& batch = options.schedule.modalities[static_cast<size_t>(Modality::kText)];
  const TextProgramOptions program{.dtype = "fp32",
                                   .device = device,
                                   .max_batch_tokens = batch.max_units,
                                   .max_batch_items = batch.max_items,
                                   .warm = false};
  return std::make_unique<LazyProgram>(replica, [folder, program]() -> absl::StatusOr<std::unique_ptr<BatchProgram>> {
    InitTorchThread();
    auto loaded = LoadTextProgram(folder, program);
    if (!loaded.ok()) return loaded.status();
    SynchroniseDevice(program.device);  // it was not loaded on the stream that it runs on
    return std::move(loaded->program);
  });
}

}  // namespace

absl::StatusOr<TextPart> LoadTextPart(const EngineOptions& options, const TextModelOptions& text,
                                      const std::string& place, const std::vector<PlacedDevice>& devices) {
  const bool exported = IsExportedModel(place);
  auto folder = exported ? ReadExportedTextFolder(place) : ReadTextModelFolder(place);
  if (!folder.ok()) return folder.status();
  auto preparer = LoadTextPreparer(folder->transformer_folder, text.max_tokens);
  if (!preparer.ok()) return preparer.status();
  TextPart part{.folder = *std::move(folder), .preparer = *std::move(preparer), .replicas = {}, .fallbacks = {}};
  for (const PlacedDevice& placed : devices) {
    auto loaded = LoadReplica(options, text, place, part.folder, exported, placed.device);
    if (!loaded.ok()) return loaded.status();
    if (part.preparer->vocabulary_size() > loaded->vocabulary_size) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": the tokenizer has ids up to ",
                                                     part.preparer->vocabulary_size() - 1,
                                                     ", config.json's vocabulary is ", loaded->vocabulary_size));
    }
    if (part.preparer->max_tokens() > loaded->max_tokens) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": texts of up to ", part.preparer->max_tokens(),
                                                     " tokens, the encoder takes ", loaded->max_tokens));
    }
    if (!exported && loaded->compute_type != ComputeType::kFp32) {
      part.fallbacks.push_back(MakeFallback(options, part.folder, *loaded->program, placed.device));
    }
    part.replicas.push_back(*std::move(loaded));
  }
  // All or none: a retry may go to any device.
  if (part.fallbacks.size() != part.replicas.size()) part.fallbacks.clear();
  return part;
}

}  // namespace tributary
