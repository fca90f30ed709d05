// The C++ end of compare_image_processor.py. Standard input: encoded pictures, each a little-endian uint32 length and
// its bytes. Standard output: for each picture a uint32 width and height (0 0: refused), the bytes u8 [height, width,
// 3] after resize and crop, and the values f32 [height, width, 3].
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/prepare/image/image_preparer.h"
#include "engine/prepare/image/preprocessor_config.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tributary-image-dump HUB_FOLDER < pictures > pixels\n");
    return 2;
  }
  const auto preprocessing = tributary::ReadPreprocessorConfig(argv[1]);
  if (!preprocessing.ok()) {
    std::fprintf(stderr, "%s\n", preprocessing.status().ToString().c_str());
    return 1;
  }
  const auto preparer = tributary::MakeImagePreparer(*preprocessing, tributary::InputLimits{});
  uint32_t size = 0;
  std::string picture;
  while (std::fread(&size, sizeof(size), 1, stdin) == 1) {
    picture.resize(size);
    if (std::fread(picture.data(), 1, size, stdin) != size) return 1;
    tributary::ImageInput input;
    input.encoded = picture;
    const auto block = preparer->Prepare(input);
    if (!block.ok()) std::fprintf(stderr, "%s\n", block.status().ToString().c_str());
    const uint32_t sides[2] = {block.ok() ? block->width : 0, block.ok() ? block->height : 0};
    std::fwrite(sides, sizeof(sides), 1, stdout);
    if (!block.ok()) continue;
    std::fwrite(block->rgb.data(), 1, block->rgb.size(), stdout);
    std::vector<float> values(block->rgb.size());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = block->rgb[i] * preprocessing->pixels.scale[i % 3] + preprocessing->pixels.shift[i % 3];
    }
    std::fwrite(values.data(), sizeof(float), values.size(), stdout);
  }
  return 0;
}
