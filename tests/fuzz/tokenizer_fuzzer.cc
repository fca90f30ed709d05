// libFuzzer's target for the reader of tokenizer.json and the tokenisers it makes: a file and a text, a zero byte
// between them. Whatever the file says, it is a tokeniser or an error; whatever the text, it comes to an end inside its
// bounds.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "engine/prepare/text/load_error.h"
#include "engine/prepare/text/tokenizer_json.h"
#include "engine/prepare/text/unicode/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const auto text = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
  const auto root = nlohmann::json::parse(input.substr(0, end), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || tributary::utf8::FindInvalid(text) != std::string_view::npos) return 0;
  try {
    const auto parts = tributary::FromTokenizerJson(root);
    std::vector<int32_t> ids;
    parts.tokenizer->Encode(text, SIZE_MAX, ids);
    ids.clear();
    parts.tokenizer->Encode(text, 2, ids);
  } catch (const tributary::LoadError&) {
  } catch (const nlohmann::json::exception&) {
  }
  return 0;
}
