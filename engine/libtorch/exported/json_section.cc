#include "engine/libtorch/exported/json_section.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/files/json_text.h"

namespace tributary {
namespace {

const nlohmann::json kNoObject = nlohmann::json::object();

}  // namespace

void JsonErrors::Add(const std::string& what) {
  if (status.ok()) status = absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

JsonSection::JsonSection(const nlohmann::json& value, std::string place, JsonErrors* errors)
    : value_(value.is_object() ? value : kNoObject), place_(std::move(place)), errors_(errors) {
  if (!value.is_object()) {
    errors_->Add(absl::StrCat(place_.empty() ? "the document" : place_, " must be an object, is ", Shown(value)));
  }
}

std::string JsonSection::Place(std::string_view key) const {
  return place_.empty() ? std::string(key) : absl::StrCat(place_, ".", std::string(key));
}

const nlohmann::json* JsonSection::Find(const char* key) {
  known_.insert(key);
  const auto found = value_.find(key);
  return found == value_.end() ? nullptr : &*found;
}

JsonSection JsonSection::Section(const char* key) {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr) Fail(key, "is missing");
  return {found == nullptr ? kNoObject : *found, Place(key), errors_};
}

int64_t JsonSection::Integer(const char* key, int64_t low, int64_t high, std::optional<int64_t> fallback) {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr) {
    if (!fallback) Fail(key, "is missing");
    return fallback.value_or(low);
  }
  const bool fits = found->is_number_unsigned() ? found->get<uint64_t>() <= static_cast<uint64_t>(high)
                                                : found->is_number_integer() && found->get<int64_t>() <= high;
  if (fits && found->get<int64_t>() >= low) return found->get<int64_t>();
  Fail(key, absl::StrCat("must be a whole number from ", low, " to ", high, ", is ", Shown(*found)));
  return fallback.value_or(low);
}

std::string JsonSection::Text(const char* key, const std::optional<std::string>& fallback) {
  const nlohmann::json* const found = Find(key);
  if (found != nullptr && found->is_string()) return found->get<std::string>();
  if (found != nullptr) {
    Fail(key, absl::StrCat("must be a string, is ", Shown(*found)));
  } else if (!fallback) {
    Fail(key, "is missing");
  }
  return fallback.value_or("");
}

bool JsonSection::Flag(const char* key, bool fallback) {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr) return fallback;
  if (found->is_boolean()) return found->get<bool>();
  Fail(key, absl::StrCat("must be true or false, is ", Shown(*found)));
  return fallback;
}

double JsonSection::Number(const char* key, double fallback) {
  const nlohmann::json* const found = Find(key);
  if (found == nullptr) return fallback;
  if (found->is_number() && std::isfinite(found->get<double>())) return found->get<double>();
  Fail(key, absl::StrCat("must be a number, is ", Shown(*found)));
  return fallback;
}

std::vector<std::string> JsonSection::Texts(const char* key) {
  const nlohmann::json* const found = Find(key);
  std::vector<std::string> texts;
  if (found == nullptr) return texts;
  bool good = found->is_array();
  if (good) {
    for (const auto& text : *found) {
      good = good && text.is_string();
      if (good) texts.push_back(text.get<std::string>());
    }
  }
  if (!good) Fail(key, absl::StrCat("must be a list of strings, is ", Shown(*found)));
  return texts;
}

size_t JsonSection::Choice(const char* key, const std::vector<std::string_view>& choices) {
  const std::string text = Text(key);
  for (size_t i = 0; i < choices.size(); ++i) {
    if (text == choices[i]) return i;
  }
  const auto append = [](std::string* out, std::string_view choice) { out->append(choice); };
  Fail(key, absl::StrCat("must be one of ", absl::StrJoin(choices, ", ", append), ", is '", text, "'"));
  return 0;
}

void JsonSection::Fail(const std::string& key, const std::string& what) {
  errors_->Add(absl::StrCat(Place(key), " ", what));
}

void JsonSection::RefuseUnknown() {
  for (const auto& [key, value] : value_.items()) {
    if (!known_.contains(key)) Fail(key, "is an unknown key");
  }
}

}  // namespace tributary
