// Patterns as tokenizer.json writes them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/prepare/text/pattern/pattern.h"

namespace tributary {

// `pattern` is {"String": ...} or {"Regex": ...}; `part` begins the error's text. Regular expressions: those of
// word_patterns.h, and one literal, \s, or bracket of ASCII characters with +, {n,} or nothing behind it. Throws
// LoadError.
std::unique_ptr<Pattern> ReadPattern(const nlohmann::json& pattern, const std::string& part);

}  // namespace tributary
