// The goldens of the text path: texts, the reference's token ids and its vectors (tests/golden/generate_text.py).
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace tributary {

struct TextGolden {
  std::string name;
  std::string text;
  std::vector<int32_t> ids;
  std::vector<float> vector;
};

inline std::string ReadGoldenFile(const std::string& name) {
  std::ifstream file(TRIBUTARY_SOURCE_DIR "/tests/golden/text/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("no golden file " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<TextGolden> LoadTextGoldens() {
  const auto document = nlohmann::json::parse(ReadGoldenFile("texts.json"));
  const std::string vectors = ReadGoldenFile("vectors.f32");
  const auto dimensions = document.at("dimensions").get<size_t>();
  std::vector<TextGolden> goldens;
  for (const auto& text : document.at("texts")) {
    TextGolden golden{text.at("name"), text.at("text"), text.at("ids"), std::vector<float>(dimensions)};
    const size_t bytes = dimensions * sizeof(float);
    if (vectors.size() < (goldens.size() + 1) * bytes) throw std::runtime_error("vectors.f32 is too short");
    std::memcpy(golden.vector.data(), vectors.data() + goldens.size() * bytes, bytes);
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

}  // namespace tributary
