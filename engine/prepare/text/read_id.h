// Token ids in tokeniser files.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"
#include "engine/prepare/text/load_error.h"

namespace tributary {

// Throws LoadError for what is no id: none of 0 to 2^31 - 1.
inline int32_t ReadId(const nlohmann::json& id) {
  const auto refuse = [&](const char* why) -> LoadError {
    return {absl::StrCat("tokenizer.json: token id ", Shown(id), why)};
  };
  if (!id.is_number_integer()) throw refuse(" is no whole number");
  if (!id.is_number_unsigned() && id.get<int64_t>() < 0) throw refuse(" is negative");
  if (id.get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()}) throw refuse(" is too large");
  return id.get<int32_t>();
}

}  // namespace tributary
