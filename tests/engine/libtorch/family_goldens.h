// The goldens of the text encoder families (tests/golden/generate_families.py): tiny model folders, token ids, and what
// the reference makes of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace tributary {

inline std::filesystem::path FamilyFolder(const std::string& name) {
  return std::filesystem::path(TRIBUTARY_SOURCE_DIR "/tests/golden/families") / name;
}

struct FamilyGolden {
  std::string folder;
  std::vector<std::vector<int32_t>> ids;    // texts of 1, 2, 17, max - 1 and max tokens
  std::vector<std::vector<float>> hidden;   // of each text, all tokens after each other
  std::vector<std::vector<float>> vectors;  // of each text
  size_t max_tokens = 0;
};

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<float> ReadFloats(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

inline FamilyGolden LoadFamilyGolden(const std::string& name) {
  const auto folder = FamilyFolder(name);
  const auto document = nlohmann::json::parse(ReadFile(folder / "golden.json"));
  FamilyGolden golden{folder.string(), document.at("ids"), {}, {}, document.at("max_tokens")};
  const auto hidden = ReadFloats(folder / "hidden.f32");
  const auto vectors = ReadFloats(folder / "pooled.f32");
  const auto width = document.at("hidden_size").get<size_t>();
  const auto dimensions = document.at("dimensions").get<size_t>();
  size_t row = 0;
  for (size_t i = 0; i < golden.ids.size(); ++i) {
    const size_t rows = golden.ids[i].size();
    if (hidden.size() < (row + rows) * width || vectors.size() < (i + 1) * dimensions) {
      throw std::runtime_error("the goldens of " + name + " are too short");
    }
    golden.hidden.emplace_back(hidden.begin() + row * width, hidden.begin() + (row + rows) * width);
    golden.vectors.emplace_back(vectors.begin() + i * dimensions, vectors.begin() + (i + 1) * dimensions);
    row += rows;
  }
  return golden;
}

inline std::vector<std::string> FamilyGoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FamilyFolder(""))) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  return names;
}

// Calls change(header, data) on a safetensors file and writes what it leaves.
template <typename Change>
void RewriteTensors(const TemporaryFolder& folder, const std::string& file, const Change& change) {
  const std::string bytes = ReadFile(folder.File(file));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  auto header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
  std::string data = bytes.substr(sizeof(length) + length);
  change(header, data);
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  length = text.size();
  std::string out(sizeof(length), '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  folder.Write(file, out + text + data);
}

// A copy of a golden's folder, to be changed.
class FamilyCopy {
 public:
  explicit FamilyCopy(const std::string& name) {
    std::filesystem::copy(FamilyFolder(name), folder_.path(), std::filesystem::copy_options::recursive);
  }

  const std::string& path() const { return folder_.path(); }
  std::string File(const std::string& name) const { return folder_.File(name); }

  // Merges `patch` into config.json (RFC 7396: null removes a key).
  void PatchConfig(const nlohmann::json& patch) const {
    auto config = nlohmann::json::parse(ReadFile(folder_.File("config.json")));
    config.merge_patch(patch);
    folder_.Write("config.json", config.dump());
  }

  template <typename Change>
  void RewriteTensors(const std::string& file, const Change& change) const {
    tributary::RewriteTensors(folder_, file, change);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace tributary
