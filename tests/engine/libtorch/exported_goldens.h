// The goldens of exported models (tests/golden/generate_exported.py), and copies of their folders to be changed.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tests/support/temporary_folder.h"

namespace tributary {

inline std::string ExportedGolden(const std::string& name) {
  return TRIBUTARY_SOURCE_DIR "/tests/golden/exported/" + name;
}

inline nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no file " + path);
  return nlohmann::json::parse(file);
}

class ExportedCopy {
 public:
  explicit ExportedCopy(const std::string& golden) {
    std::filesystem::copy(ExportedGolden(golden), folder_.path(), std::filesystem::copy_options::recursive);
  }

  const std::string& path() const { return folder_.path(); }
  std::string File(const std::string& name) const { return folder_.File(name); }
  void Write(const std::string& name, std::string_view bytes) const { folder_.Write(name, bytes); }
  void Remove(const std::string& name) const { std::filesystem::remove(File(name)); }
  // Another golden module in place of this one's.
  void Replace(const std::string& golden_file) const {
    std::filesystem::copy_file(ExportedGolden(golden_file), File("model.pt"),
                               std::filesystem::copy_options::overwrite_existing);
  }

  // Merges `patch` into tributary.json (RFC 7396: null removes a key).
  const ExportedCopy& Patch(const nlohmann::json& patch) const {
    auto manifest = ReadJson(File("tributary.json"));
    manifest.merge_patch(patch);
    folder_.Write("tributary.json", manifest.dump());
    return *this;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace tributary
