#include "engine/libtorch/check_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/host_embed.h"
#include "engine/libtorch/model_loader.h"
#include "engine/libtorch/vector_compare.h"

namespace tributary {
namespace {

constexpr double kAloneOrTogether = 0.9999;  // engine/README.md: a vector does not depend on its batch
constexpr double kToFp32 = 0.999;

// "key             value"
void AddLine(const std::string& key, const std::string& value, std::string* report) {
  absl::StrAppendFormat(report, "%-16s %s\n", key, value);
}

std::string Mebibytes(uint64_t bytes) { return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20)); }

// Lengths from the shortest to beyond any limit, scripts of several kinds.
std::vector<std::string> Texts() {
  std::string longest;
  for (int i = 0; i < 400; ++i) absl::StrAppend(&longest, "the river carries ", i, " boats to the sea, ");
  return {"",
          "a",
          "a cat looking at the camera",
          "Größe, naïve café: 漢字とかな 한국어 русский 🙂",
          longest.substr(0, longest.size() / 30),
          longest};
}

std::vector<std::string> Pictures(uint32_t width, uint32_t height) {
  std::mt19937 random(4);
  std::vector<std::string> pictures(3, std::string(size_t{width} * height * 3, '\x7f'));
  for (size_t i = 0; i < pictures[1].size(); ++i) pictures[1][i] = static_cast<char>(i / 3 % width * 255 / width);
  for (char& value : pictures[2]) value = static_cast<char>(random());
  return pictures;
}

// The model's inputs of one kind, prepared as a request's would be.
absl::StatusOr<std::vector<Prepared>> PreparedTexts(const ServedModel& model) {
  std::vector<Prepared> prepared;
  for (const std::string& text : Texts()) {
    auto tokens = model.text_preparer->Prepare({.text = text, .token_ids = std::nullopt}, Truncation::kEnd);
    if (!tokens.ok()) return tokens.status();
    prepared.emplace_back(*std::move(tokens));
  }
  return prepared;
}

absl::StatusOr<std::vector<Prepared>> PreparedPictures(const ServedModel& model) {
  const uint32_t width = model.info.image_width + 40;
  const uint32_t height = model.info.image_height + 10;
  std::vector<Prepared> prepared;
  for (const std::string& pixels : Pictures(width, height)) {
    auto block = model.image_preparer->Prepare(
        {.encoded = {}, .raw_rgb = ImageInput::RawRgb{.bytes = pixels, .width = width, .height = height}});
    if (!block.ok()) return block.status();
    prepared.emplace_back(*std::move(block));
  }
  return prepared;
}

using Vectors = std::vector<std::vector<float>>;

// The vectors of all inputs together; an error where one is not finite, or differs when it runs alone.
absl::StatusOr<Vectors> CheckedVectors(std::string_view kind, const BatchProgram& program,
                                       const std::vector<Prepared>& inputs) {
  auto together = EmbedOnHost(program, {}, inputs);
  if (!together.ok()) return together.status();
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto alone = EmbedOnHost(program, {}, {inputs[i]});
    if (!alone.ok()) return alone.status();
    const double cosine = Cosine(alone->front(), (*together)[i]);
    if (!(cosine >= kAloneOrTogether)) {
      return absl::FailedPreconditionError(absl::StrCat("self-check: ", std::string(kind), " ", i,
                                                        " alone and in a batch have cosine ", cosine, ", at least ",
                                                        kAloneOrTogether, " is needed"));
    }
  }
  return together;
}

double LowestCosine(const Vectors& a, const Vectors& b) {
  double lowest = 1;
  for (size_t i = 0; i < a.size(); ++i) lowest = std::min(lowest, Cosine(a[i], b[i]));
  return lowest;
}

struct Checked {
  ServedModel model;
  Vectors texts;
  Vectors images;
};

absl::StatusOr<Checked> LoadAndRun(const ModelOptions& options) {
  const std::vector<PlacedDevice> cpu(1);
  auto model = LoadModel({}, options, {cpu, cpu, cpu});
  if (!model.ok()) return model.status();
  Checked checked{.model = *std::move(model), .texts = {}, .images = {}};
  const auto program = [&](Modality modality) -> const BatchProgram* {
    const auto& replicas = checked.model.replicas[static_cast<size_t>(modality)];
    return replicas.empty() ? nullptr : replicas.front().program.get();
  };
  if (program(Modality::kText) != nullptr) {
    auto inputs = PreparedTexts(checked.model);
    if (!inputs.ok()) return inputs.status();
    auto vectors = CheckedVectors("text", *program(Modality::kText), *inputs);
    if (!vectors.ok()) return vectors.status();
    checked.texts = *std::move(vectors);
  }
  if (program(Modality::kImage) != nullptr) {
    auto inputs = PreparedPictures(checked.model);
    if (!inputs.ok()) return inputs.status();
    auto vectors = CheckedVectors("image", *program(Modality::kImage), *inputs);
    if (!vectors.ok()) return vectors.status();
    checked.images = *std::move(vectors);
  }
  return checked;
}

void Describe(const ModelInfo& info, std::string* report) {
  if (info.max_tokens > 0) {
    AddLine("text", absl::StrCat(info.compute_type, ", at most ", info.max_tokens, " tokens of ", info.vocabulary_size),
            report);
  }
  if (info.image_width > 0) {
    AddLine("image", absl::StrCat(info.image_compute_type, ", ", info.image_width, " x ", info.image_height, " pixels"),
            report);
  }
  AddLine("vectors", absl::StrCat(info.dimensions, " numbers", info.normalised_by_default ? ", normalised" : ""),
          report);
  if (!info.fusion.empty()) AddLine("pairs", info.fusion, report);
  AddLine("parameters", absl::StrCat(info.parameter_count, ", ", Mebibytes(info.parameter_bytes)), report);
  AddLine("revision", info.revision, report);
}

}  // namespace

absl::StatusOr<std::string> CheckModelFolder(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat(folder, " is not a folder"));
  }
  InitTorchThread();
  ModelOptions options;
  options.name = std::filesystem::path(folder).lexically_normal().filename();
  options.folder = folder;
  auto checked = LoadAndRun(options);
  if (!checked.ok()) return checked.status();
  std::string report;
  AddLine("folder", folder, &report);
  const ModelInfo info = checked->model.info;
  Describe(info, &report);
  std::string verdict = absl::StrCat(checked->texts.size(), " texts, ", checked->images.size(),
                                     " images: finite, and the same alone and in a batch");
  const bool reduced = info.compute_type != "fp32" || (info.image_width > 0 && info.image_compute_type != "fp32");
  if (reduced) {
    const Vectors texts = std::move(checked->texts);
    const Vectors images = std::move(checked->images);
    checked = absl::UnavailableError("given back: two copies of the model may not fit");
    options.text.dtype = options.image.dtype = "fp32";
    checked = LoadAndRun(options);
    if (!checked.ok()) return checked.status();
    const double cosine = std::min(LowestCosine(texts, checked->texts), LowestCosine(images, checked->images));
    if (!(cosine >= kToFp32)) {
      return absl::FailedPreconditionError(
          absl::StrCat("self-check: cosine ", cosine, " to the same model in fp32, at least ", kToFp32, " is needed"));
    }
    absl::StrAppendFormat(&verdict, "; cosine to fp32 at least %.5f", cosine);
  }
  AddLine("self-check", verdict, &report);
  return report;
}

}  // namespace tributary
