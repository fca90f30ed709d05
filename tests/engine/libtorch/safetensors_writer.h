// Builds safetensors files in memory, right and wrong ones.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tributary {

// The file of this header text and data, whatever they say.
inline std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xff));
  return file + header + data;
}

struct FloatTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

inline std::string SafetensorsOf(const std::map<std::string, FloatTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // as writers do, so that the data is aligned
  return SafetensorsBytes(text, data);
}

}  // namespace tributary
