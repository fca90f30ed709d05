// A post-processor as tokenizer.json writes it: the special tokens around a text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace tributary {

struct SpecialIds {
  std::vector<int32_t> prefix;  // [CLS]
  std::vector<int32_t> suffix;  // [SEP]
};

// `part` is the value of "post_processor". Throws LoadError with the part's name where it is not supported.
SpecialIds ReadPostProcessor(const nlohmann::json& part);

}  // namespace tributary
