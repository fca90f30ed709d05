#include "engine/libtorch/self_check.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"
#include "engine/files/mapped_file.h"
#include "engine/libtorch/host_embed.h"
#include "engine/libtorch/vector_compare.h"

namespace tributary {
namespace {

constexpr size_t kMaxEntries = 1024;
constexpr size_t kMaxFileBytes = size_t{64} << 20;

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const std::string_view bytes = (*file)->bytes();
  if (bytes.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", bytes.size(), " bytes, the limit is ", kMaxFileBytes));
  }
  return std::string(bytes);
}

// The entries under `list`, whose input is a string under `key`.
absl::StatusOr<std::vector<ReferenceVectors::Entry>> ReadEntries(const std::string& file, const nlohmann::json& root,
                                                                 const char* list, const char* key) {
  std::vector<ReferenceVectors::Entry> entries;
  const auto found = root.find(list);
  if (found == root.end()) return entries;
  if (!found->is_array() || found->size() > kMaxEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", list, " must be a list of at most ", kMaxEntries, " entries"));
  }
  for (size_t i = 0; i < found->size(); ++i) {
    const nlohmann::json& entry = (*found)[i];
    const std::string name = absl::StrCat(file, ": ", list, "[", i, "]");
    if (!entry.is_object() || entry.size() != 2 || !entry.contains(key) || !entry[key].is_string() ||
        !entry.contains("vector") || !entry["vector"].is_array()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " must have a ", key, " and a vector, and nothing else"));
    }
    ReferenceVectors::Entry read{.input = entry[key].get<std::string>(), .vector = {}};
    for (const nlohmann::json& value : entry["vector"]) {
      if (!value.is_number()) return absl::InvalidArgumentError(absl::StrCat(name, ".vector holds what is no number"));
      read.vector.push_back(value.get<float>());
    }
    entries.push_back(std::move(read));
  }
  return entries;
}

// What docs promise of each type (engine/README.md, decisions); of replicas that differ, of the coarsest.
double LimitOf(const SelfCheckOptions& options, std::string_view compute_type) {
  if (options.min_cosine > 0) return options.min_cosine;
  if (compute_type == "fp32") return 0.9999;
  return compute_type.find("int8") != std::string_view::npos ? 0.99 : 0.999;
}

// Compares one kind of input.
class Comparison {
 public:
  Comparison(const SelfCheckOptions& options, const ModelPlacement& placement, ServedModel& model)
      : options_(options), placement_(placement), model_(model) {}

  template <typename Prepare>
  absl::Status Run(const char* list, const std::vector<ReferenceVectors::Entry>& entries, Modality modality,
                   std::string_view compute_type, const Prepare& prepare) {
    if (entries.empty()) return absl::OkStatus();
    const auto& replicas = model_.replicas[static_cast<size_t>(modality)];
    if (replicas.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.file, ": it has ", list, ", which the model does not take"));
    }
    std::vector<Prepared> inputs;
    for (size_t i = 0; i < entries.size(); ++i) {
      const std::string name = absl::StrCat(options_.file, ": ", list, "[", i, "]");
      if (entries[i].vector.size() != replicas.front().program->OutputDimension()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ".vector has ", entries[i].vector.size(),
                                                       " numbers, the model's have ",
                                                       replicas.front().program->OutputDimension()));
      }
      auto prepared = prepare(entries[i].input);
      if (!prepared.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", prepared.status().message()));
      inputs.emplace_back(*std::move(prepared));
    }
    for (size_t r = 0; r < replicas.size(); ++r) {
      const ProgramDevice& device = placement_[static_cast<size_t>(modality)][r].device;
      auto vectors = EmbedOnHost(*replicas[r].program, device, inputs);
      if (!vectors.ok()) return vectors.status();
      if (auto status = Judge(list, entries, *vectors, LimitOf(options_, compute_type)); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Judge(const char* list, const std::vector<ReferenceVectors::Entry>& entries,
                     const std::vector<std::vector<float>>& vectors, double limit) {
    SelfCheckResult& result = *model_.info.self_check;
    for (size_t i = 0; i < entries.size(); ++i) {
      const double cosine = Cosine(vectors[i], entries[i].vector);
      // Not `cosine < lowest`: not-a-number is the worst of all.
      if (!(cosine >= result.lowest_cosine)) result.lowest_cosine = std::isfinite(cosine) ? cosine : -1;
      if (cosine >= limit) continue;
      result.passed = false;
      if (options_.allow_mismatch) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "self_check: ", list, "[", i, "] of ", options_.file, " has cosine ", cosine, " to its reference, at least ",
          limit, " is needed (self_check.allow_mismatch serves the model all the same)"));
    }
    return absl::OkStatus();
  }

  const SelfCheckOptions& options_;
  const ModelPlacement& placement_;
  ServedModel& model_;
};

}  // namespace

absl::StatusOr<ReferenceVectors> ReadReferenceVectors(const std::string& file) {
  auto text = ReadWhole(file);
  if (!text.ok()) return text.status();
  const auto parsed = ParseJson(*text, file);
  if (!parsed.ok()) return parsed.status();
  const nlohmann::json& root = *parsed;
  if (!root.is_object() || !root.contains("format") || root["format"] != 1) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": must be JSON with \"format\": 1"));
  }
  for (const auto& [key, value] : root.items()) {
    if (key != "format" && key != "texts" && key != "images") {
      return absl::InvalidArgumentError(absl::StrCat(file, ": unknown key '", key, "'"));
    }
  }
  ReferenceVectors vectors;
  auto texts = ReadEntries(file, root, "texts", "text");
  if (!texts.ok()) return texts.status();
  vectors.texts = *std::move(texts);
  auto images = ReadEntries(file, root, "images", "file");
  if (!images.ok()) return images.status();
  vectors.images = *std::move(images);
  if (vectors.texts.empty() && vectors.images.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": it has neither texts nor images"));
  }
  for (ReferenceVectors::Entry& image : vectors.images) {
    auto bytes = ReadWhole((std::filesystem::path(file).parent_path() / image.input).string());
    if (!bytes.ok()) return bytes.status();
    image.input = *std::move(bytes);
  }
  return vectors;
}

absl::Status CheckAgainstReference(const SelfCheckOptions& options, const ModelPlacement& placement,
                                   ServedModel& model) {
  if (options.file.empty()) return absl::OkStatus();
  auto reference = ReadReferenceVectors(options.file);
  if (!reference.ok()) return reference.status();
  model.info.self_check = SelfCheckResult{};
  Comparison comparison(options, placement, model);
  const auto found = model.prompts.find(model.info.default_prompt);
  const std::string_view prompt = found == model.prompts.end() ? std::string_view() : found->second;
  const auto prepare_text = [&](const std::string& text) {
    return model.text_preparer->Prepare({.text = text, .token_ids = std::nullopt, .prompt = prompt}, Truncation::kEnd);
  };
  if (auto status = comparison.Run("texts", reference->texts, Modality::kText, model.info.compute_type, prepare_text);
      !status.ok()) {
    return status;
  }
  return comparison.Run("images", reference->images, Modality::kImage, model.info.image_compute_type,
                        [&](const std::string& bytes) {
                          return model.image_preparer->Prepare({.encoded = bytes, .raw_rgb = std::nullopt});
                        });
}

}  // namespace tributary
