// The goldens of the image encoder families (tests/golden/generate_image_families.py): tiny model folders, images, and
// what the reference makes of them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/prepare/image/image_preprocessing.h"
#include "tests/engine/libtorch/family_goldens.h"

namespace tributary {

// TRIBUTARY_IMAGE_GOLDENS: another folder, made by the generator's --compare.
inline std::filesystem::path ImageFamilyFolder(const std::string& name) {
  const char* const other = std::getenv("TRIBUTARY_IMAGE_GOLDENS");
  return std::filesystem::path(other != nullptr ? other : TRIBUTARY_SOURCE_DIR "/tests/golden/image_families") / name;
}

// A copy of a golden's folder, to be changed.
inline FamilyCopy ImageFamilyCopy(const std::string& name) { return FamilyCopy(ImageFamilyFolder(name)); }

struct ImageFamilyGolden {
  std::string folder;
  ImagePreprocessing preprocessing;
  std::vector<std::vector<uint8_t>> pixels;  // of each image, [height, width, 3]
  std::vector<std::vector<float>> hidden;    // of each image
  std::vector<std::vector<float>> vectors;   // of each image
  std::vector<std::vector<float>> logits;    // of each image, where the model has a classifier
};

template <typename Value>
std::vector<std::vector<Value>> Split(const std::vector<Value>& values, size_t parts) {
  std::vector<std::vector<Value>> split;
  const size_t each = values.size() / parts;
  for (size_t i = 0; i < parts; ++i) split.emplace_back(values.begin() + i * each, values.begin() + (i + 1) * each);
  return split;
}

inline ImageFamilyGolden LoadImageFamilyGolden(const std::string& name) {
  const auto folder = ImageFamilyFolder(name);
  const auto document = nlohmann::json::parse(ReadFile(folder / "golden.json"));
  ImageFamilyGolden golden{
      .folder = folder.string(), .preprocessing = {}, .pixels = {}, .hidden = {}, .vectors = {}, .logits = {}};
  golden.preprocessing.width = document.at("width");
  golden.preprocessing.height = document.at("height");
  golden.preprocessing.pixels = {.scale = document.at("scale"), .shift = document.at("shift")};
  const auto images = document.at("images").get<size_t>();
  const std::string bytes = ReadFile(folder / "pixels.u8");
  golden.pixels = Split(std::vector<uint8_t>(bytes.begin(), bytes.end()), images);
  golden.hidden = Split(ReadFloats(folder / "hidden.f32"), images);
  golden.vectors = Split(ReadFloats(folder / "pooled.f32"), images);
  if (std::filesystem::exists(folder / "logits.f32")) golden.logits = Split(ReadFloats(folder / "logits.f32"), images);
  return golden;
}

inline std::vector<std::string> ImageFamilyGoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ImageFamilyFolder(""))) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

}  // namespace tributary
