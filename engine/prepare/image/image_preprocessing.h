// What an image encoder wants to see: said by its folder (preprocessor_config.h), done by the preparer as far as pixels
// are bytes, and by the image program from there on.
#pragma once

#include <array>
#include <cstdint>

namespace tributary {

// The values are Pillow's Image.Resampling, which is what preprocessor_config.json writes.
enum class ResizeFilter : uint8_t { kNearest = 0, kLanczos = 1, kBilinear = 2, kBicubic = 3, kBox = 4, kHamming = 5 };

enum class ResizeMode : uint8_t {
  kNone,          // as it is
  kExact,         // to width x height, whatever that does to the aspect ratio
  kShortestEdge,  // the shorter side becomes `edge`, the longer one floor(edge * longer / shorter)
  kCropFirst,     // a centre square first: EfficientNet's own evaluation, where the crop is a part of the short side
};

// What becomes of transparent pixels.
enum class Transparency : uint8_t {
  kIgnore,   // alpha is dropped, as Pillow's convert("RGB") does
  kOnWhite,  // laid on white first, as the image processors of transformers 5 do
};

// The default is EfficientNet-Lite0's. Three steps: resize, then centre crop to width x height (black where the picture
// is smaller), both on bytes; then the pixel transform on the device.
struct ImagePreprocessing {
  // What the encoder takes, pixels.
  uint32_t width = 224;
  uint32_t height = 224;

  struct Resize {
    ResizeMode mode = ResizeMode::kCropFirst;
    ResizeFilter filter = ResizeFilter::kBicubic;
    uint32_t width = 0;          // kExact
    uint32_t height = 0;         // kExact
    uint32_t edge = 0;           // kShortestEdge
    uint32_t crop_padding = 32;  // kCropFirst: the square's side is width / (width + crop_padding) of the short side
  };
  Resize resize = {};
  Transparency transparency = Transparency::kIgnore;

  // value = byte * scale + shift, per channel R, G, B.
  struct PixelTransform {
    std::array<float, 3> scale = {};
    std::array<float, 3> shift = {};
  };
  PixelTransform pixels = {.scale = {1.0F / 128, 1.0F / 128, 1.0F / 128},
                           .shift = {-127.0F / 128, -127.0F / 128, -127.0F / 128}};
};

}  // namespace tributary
