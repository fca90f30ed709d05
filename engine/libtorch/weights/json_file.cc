#include "engine/libtorch/weights/json_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"

namespace tributary {

absl::StatusOr<JsonFile> JsonFile::Read(const std::string& path) {
  auto root = ReadJsonFile(path);
  if (!root.ok()) return root.status();
  return JsonFile(path, *std::move(root));
}

absl::StatusOr<JsonFile> JsonFile::Section(const char* key) const {
  const std::string path = absl::StrCat(path_, ": ", key);
  if (!Has(key)) return JsonFile(path, nlohmann::json::object());
  if (!root_[key].is_object()) return absl::InvalidArgumentError(absl::StrCat(path, " must be an object"));
  return JsonFile(path, root_[key]);
}

int64_t JsonFile::Count(const char* key, int64_t max, std::optional<int64_t> fallback) {
  if (!Has(key)) {
    if (!fallback) Fail(absl::StrCat(key, " is missing"));
    return fallback.value_or(1);
  }
  const nlohmann::json& value = root_[key];
  if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > static_cast<uint64_t>(max)) {
    Fail(absl::StrCat(key, " must be a whole number from 1 to ", max, ", is ", Shown(value)));
    return 1;
  }
  return value.get<int64_t>();
}

double JsonFile::Number(const char* key, double fallback) {
  if (!Has(key)) return fallback;
  if (root_[key].is_number()) return root_[key].get<double>();
  Fail(absl::StrCat(key, " must be a number, is ", Shown(root_[key])));
  return fallback;
}

std::string JsonFile::Text(const char* key, const std::string& fallback) {
  if (!Has(key)) return fallback;
  if (root_[key].is_string()) return root_[key].get<std::string>();
  Fail(absl::StrCat(key, " must be a string, is ", Shown(root_[key])));
  return fallback;
}

bool JsonFile::Flag(const char* key, bool fallback) {
  if (!Has(key)) return fallback;
  if (root_[key].is_boolean()) return root_[key].get<bool>();
  Fail(absl::StrCat(key, " must be true or false, is ", Shown(root_[key])));
  return fallback;
}

void JsonFile::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
}

}  // namespace tributary
