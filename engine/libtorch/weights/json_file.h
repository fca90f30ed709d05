// A small configuration file in JSON, with errors that name the file and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

// Readers return the value, or a fallback after noting the first error in status(): a caller reads all keys, then
// checks once. Thread-safety: none needed.
class JsonFile {
 public:
  // NOT_FOUND where there is none; INVALID_ARGUMENT when it is not JSON.
  static absl::StatusOr<JsonFile> Read(const std::string& path);

  // The object under `key` as a file of its own, whose messages name the key too; empty where there is no such key.
  absl::StatusOr<JsonFile> Section(const char* key) const;

  const nlohmann::json& root() const { return root_; }
  const std::string& path() const { return path_; }
  bool Has(const char* key) const { return root_.is_object() && root_.contains(key) && !root_[key].is_null(); }

  // Within 1..max. Without a fallback the key is required.
  int64_t Count(const char* key, int64_t max, std::optional<int64_t> fallback = std::nullopt);
  double Number(const char* key, double fallback);
  std::string Text(const char* key, const std::string& fallback);
  bool Flag(const char* key, bool fallback);

  void Fail(const std::string& what);
  const absl::Status& status() const { return status_; }

 private:
  JsonFile(std::string path, nlohmann::json root) : path_(std::move(path)), root_(std::move(root)) {}

  std::string path_;
  nlohmann::json root_;
  absl::Status status_;
};

}  // namespace tributary
