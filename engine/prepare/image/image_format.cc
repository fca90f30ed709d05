#include "engine/prepare/image/image_format.h"

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

ImageFormat SniffFormat(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xFF\xD8\xFF")) return ImageFormat::kJpeg;
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return ImageFormat::kPng;
  if (text.starts_with("RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP") return ImageFormat::kWebp;
  return ImageFormat::kUnknown;
}

absl::Status CheckPixels(uint64_t width, uint64_t height, uint64_t max_pixels) {
  if (width == 0 || height == 0) {
    return absl::InvalidArgumentError(absl::StrCat("image has no pixels: ", width, " x ", height));
  }
  // By division: the product may not fit 64 bits.
  if (height > max_pixels / width) {
    return absl::InvalidArgumentError(
        absl::StrCat("image is too large: ", width, " x ", height, ", the limit is ", max_pixels, " pixels"));
  }
  return absl::OkStatus();
}

void LayOnWhite(uint8_t* pixels, size_t count) {
  constexpr uint32_t kWhite = 255;
  const uint8_t* from = pixels;
  for (size_t i = 0; i < count; ++i, from += 4) {
    const uint32_t alpha = from[3];
    for (int c = 0; c < 3; ++c) {
      const uint32_t sum = from[c] * alpha + kWhite * (kWhite - alpha) + 128;
      *pixels++ = static_cast<uint8_t>((sum + (sum >> 8)) >> 8);  // divided by 255 and rounded
    }
  }
}

absl::Status TruncatedImage(std::string_view format, size_t bytes, std::string_view detail) {
  return absl::InvalidArgumentError(
      absl::StrCat("image is truncated: ", Absl(format), " data ends after ", bytes, " bytes (", Absl(detail), ")"));
}

absl::Status BrokenImage(std::string_view format, std::string_view detail) {
  return absl::InvalidArgumentError(absl::StrCat("image is broken: ", Absl(format), ": ", Absl(detail)));
}

}  // namespace tributary
