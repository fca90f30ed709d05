// Files of tests/golden/image, made by tests/golden/generate_image.py.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace tributary {

inline std::string ReadGoldenFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no golden " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string ReadGolden(const std::string& name) {
  return ReadGoldenFile(std::string(TRIBUTARY_SOURCE_DIR) + "/tests/golden/image/" + name);
}

// Pixels of a binary PPM, u8 [side, side, 3].
inline std::vector<uint8_t> ReadGoldenPixels(const std::string& name) {
  const std::string file = ReadGolden(name);
  const size_t start = file.find("\n255\n");
  if (start == std::string::npos) throw std::runtime_error("not a PPM: " + name);
  return {file.begin() + static_cast<std::ptrdiff_t>(start) + 5, file.end()};
}

}  // namespace tributary
