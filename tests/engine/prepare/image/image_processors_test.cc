// Folders as the hub has them against transformers' image processors on Pillow: see
// tests/golden/generate_image_processors.py.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/prepare/image/image_preparer.h"
#include "engine/prepare/image/preprocessor_config.h"
#include "tests/engine/prepare/image/golden_image.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

std::string FolderOf(const std::string& name) {
  return std::string(TRIBUTARY_SOURCE_DIR) + "/tests/golden/image_processors/" + name;
}

struct Golden {
  std::vector<std::string> pictures;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t step = 1;          // every step-th row and column was kept
  std::string pixels;         // u8 [pictures, rows, columns, 3]
  std::vector<float> values;  // of the first picture, f32 [rows, columns, 3]
  size_t rows() const { return (height + step - 1) / step; }
  size_t columns() const { return (width + step - 1) / step; }
};

Golden ReadProcessorGolden(const std::string& name) {
  const auto json = nlohmann::json::parse(ReadGoldenFile(FolderOf(name) + "/golden.json"));
  Golden golden;
  golden.pictures = json["pictures"].get<std::vector<std::string>>();
  golden.width = json["width"];
  golden.height = json["height"];
  golden.step = json["step"];
  golden.pixels = ReadGoldenFile(FolderOf(name) + "/pixels.u8");
  const std::string values = ReadGoldenFile(FolderOf(name) + "/values.f32");
  golden.values.resize(values.size() / sizeof(float));
  std::memcpy(golden.values.data(), values.data(), values.size());
  REQUIRE(golden.values.size() == golden.rows() * golden.columns() * 3);
  REQUIRE(golden.pixels.size() == golden.values.size() * golden.pictures.size());
  return golden;
}

TEST_CASE("A folder's pictures become the bytes and the values its image processor makes of them") {
  const std::string name =
      GENERATE("clip", "clip-first", "clip-smaller-than-crop", "siglip", "siglip-wide", "siglip-processor", "vit",
               "dinov2", "deit", "convnext", "convnext-384", "efficientnet", "efficientnet-crop", "no-resize",
               "no-rescale", "no-normalise", "filter-nearest", "filter-box", "filter-bilinear", "filter-hamming",
               "filter-bicubic", "filter-lanczos");
  CAPTURE(name);
  const Golden golden = ReadProcessorGolden(name);
  const auto preprocessing = ReadPreprocessorConfig(FolderOf(name));
  INFO(preprocessing.status().ToString());
  REQUIRE(preprocessing.ok());
  CHECK(preprocessing->width == golden.width);
  CHECK(preprocessing->height == golden.height);

  const auto preparer = MakeImagePreparer(*preprocessing, InputLimits{});
  for (size_t p = 0; p < golden.pictures.size(); ++p) {
    CAPTURE(golden.pictures[p]);
    const std::string file = ReadGolden(golden.pictures[p]);
    ImageInput input;
    input.encoded = file;
    const auto block = preparer->Prepare(input);
    INFO(block.status().ToString());
    REQUIRE(block.ok());
    REQUIRE(block->rgb.size() == size_t{golden.width} * golden.height * 3);
    int largest_byte = 0;
    float largest_value = 0;
    for (size_t row = 0; row < golden.rows(); ++row) {
      for (size_t column = 0; column < golden.columns(); ++column) {
        for (size_t c = 0; c < 3; ++c) {
          const uint8_t byte = block->rgb[(row * golden.step * golden.width + column * golden.step) * 3 + c];
          const size_t at = (row * golden.columns() + column) * 3 + c;
          const auto expected = static_cast<uint8_t>(golden.pixels[p * golden.values.size() + at]);
          largest_byte = std::max(largest_byte, std::abs(int{byte} - int{expected}));
          const float value = byte * preprocessing->pixels.scale[c] + preprocessing->pixels.shift[c];
          if (p == 0) largest_value = std::max(largest_value, std::abs(value - golden.values[at]));
        }
      }
    }
    CHECK(largest_byte == 0);      // asked for is 1; it is bit-equal with the versions of versions.json
    CHECK(largest_value < 2e-6F);  // float32 rounding of values up to 8
  }
}

}  // namespace
}  // namespace tributary
