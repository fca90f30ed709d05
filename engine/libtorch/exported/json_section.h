// One object of a strict JSON document: every key is asked for by name, and one nobody asked for is an error.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace tributary {

// What a document's sections share: its path and the first error.
struct JsonErrors {
  std::string path;
  absl::Status status;
  void Add(const std::string& what);
};

// Readers return the value, or a fallback after noting the error: a caller reads all keys, then checks once.
// Thread-safety: none needed. Ownership: `value` and `errors` outlive it.
class JsonSection {
 public:
  // `place`: of the object in its document ("output"; empty: the root), for messages.
  JsonSection(const nlohmann::json& value, std::string place, JsonErrors* errors);
  JsonSection(const JsonSection&) = delete;
  JsonSection& operator=(const JsonSection&) = delete;

  // The value below `key`, which is thereby known; null: there is none.
  const nlohmann::json* Find(const char* key);
  JsonSection Section(const char* key);  // required

  // Without a fallback the key is required.
  int64_t Integer(const char* key, int64_t low, int64_t high, std::optional<int64_t> fallback = std::nullopt);
  std::string Text(const char* key, const std::optional<std::string>& fallback = std::nullopt);
  bool Flag(const char* key, bool fallback);
  double Number(const char* key, double fallback);
  std::vector<std::string> Texts(const char* key);  // none: empty

  // The index of the key's text in `choices`; required.
  size_t Choice(const char* key, const std::vector<std::string_view>& choices);

  void Fail(const std::string& key, const std::string& what);
  // Notes an error for a key that nobody asked for.
  void RefuseUnknown();

 private:
  std::string Place(std::string_view key) const;

  const nlohmann::json& value_;
  const std::string place_;
  JsonErrors* const errors_;
  std::set<std::string> known_;
};

}  // namespace tributary
