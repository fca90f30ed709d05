#include "engine/files/json_text.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/files/mapped_file.h"

namespace tributary {
namespace {

constexpr size_t kShownBytes = 100;

}  // namespace

bool JsonDepthIsBounded(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return false;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return true;
}

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& name) {
  if (text.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", text.size(), " bytes of JSON, the limit is ", kMaxJsonBytes));
  }
  if (!JsonDepthIsBounded(text)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": JSON deeper than ", kMaxJsonDepth, " levels"));
  }
  auto value = nlohmann::json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(name, " is not valid JSON"));
  return value;
}

absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return ParseJson((*file)->bytes(), path);
}

std::string Shown(const nlohmann::json& value) {
  if (value.is_array() && value.size() > kShownBytes / 2) return absl::StrCat("a list of ", value.size());
  if (value.is_object() && value.size() > kShownBytes / 4) return absl::StrCat("an object of ", value.size(), " keys");
  // Not every string of a parsed file is UTF-8 throughout: what is not is replaced.
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShownBytes) {
    size_t end = kShownBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
    text = text.substr(0, end) + "...";
  }
  return text;
}

}  // namespace tributary
