// The three encoded formats: told apart by their first bytes, each decoded by its library into RGB. Internal to
// prepare/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/prepare/image/image_preprocessing.h"
#include "engine/prepare/image/rgb_image.h"

namespace tributary {

enum class ImageFormat : uint8_t { kUnknown, kJpeg, kPng, kWebp };

ImageFormat SniffFormat(std::span<const uint8_t> bytes);

// INVALID_ARGUMENT when either side is 0 or the product is beyond the limit. Called with the header's figures, before
// anything is allocated for the picture.
absl::Status CheckPixels(uint64_t width, uint64_t height, uint64_t max_pixels);

// RGBA to RGB on white, in place: `count` pixels of four bytes become as many of three. To the bit what Pillow's
// Image.alpha_composite makes of it.
void LayOnWhite(uint8_t* pixels, size_t count);

// "image is truncated: ...", the one wording for data that ends too early. `format`: "JPEG".
absl::Status TruncatedImage(std::string_view format, size_t bytes, std::string_view detail);
absl::Status BrokenImage(std::string_view format, std::string_view detail);

// TurboJPEG's decompressor, kept from picture to picture.
class JpegDecoder {
 public:
  absl::StatusOr<RgbImage> Decode(std::span<const uint8_t> bytes, uint64_t max_pixels, PixelBuffer& pixels);

 private:
  struct Destroy {
    void operator()(void* handle) const;
  };
  absl::StatusOr<RgbImage> DecodeWithHandle(std::span<const uint8_t> bytes, uint64_t max_pixels, PixelBuffer& pixels);

  std::unique_ptr<void, Destroy> handle_;
};

// All decoders: what Pillow's open().convert("RGB") gives, orientation found but not applied. The view points into
// `pixels`. Errors: INVALID_ARGUMENT. What follows the end of the picture is ignored, as Pillow does: phones append
// depth maps and videos there.
absl::StatusOr<RgbImage> DecodePng(std::span<const uint8_t> bytes, Transparency transparency, uint64_t max_pixels,
                                   PixelBuffer& pixels);
// Of an animation, its first frame on the canvas; canvas it does not cover is black.
absl::StatusOr<RgbImage> DecodeWebp(std::span<const uint8_t> bytes, Transparency transparency, uint64_t max_pixels,
                                    PixelBuffer& pixels);

}  // namespace tributary
