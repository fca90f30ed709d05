// JSON of other people's files: bounded before it is parsed, and shown in messages without bound trouble.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tributary {

// Vocabularies are the largest: 33 MB (Gemma's).
inline constexpr size_t kMaxJsonBytes = size_t{256} << 20;
// Copying and printing a value calls itself once a level.
inline constexpr size_t kMaxJsonDepth = 64;

// Whether no array or object lies deeper than kMaxJsonDepth; of text that is no JSON, anything.
bool JsonDepthIsBounded(std::string_view text);

// Errors: INVALID_ARGUMENT, beginning with `name`: not JSON, too large, too deep.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& name);

// A regular file. Errors: those of MappedFile::Open and ParseJson.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path);

// A value as a message shows it: lists and objects by their size only where they are long, text cut.
std::string Shown(const nlohmann::json& value);

}  // namespace tributary
