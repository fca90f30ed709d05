#include <spng.h>

#include <cstring>
#include <memory>
#include <string_view>

#include "engine/prepare/image/image_format.h"

namespace tributary {
namespace {

// The library keeps metadata (a colour profile, comments), inflated, while it decodes. Profiles have 3 MB at most,
// Pillow takes 1 MiB of text; beyond this the picture is refused.
constexpr size_t kMaxMetadataBytes = size_t{4} << 20;

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

uint32_t ReadBigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

// Walks the chunks, those behind the picture too. EXIF and XMP in compressed text chunks are not looked at.
OrientationSources FindMetadata(std::span<const uint8_t> bytes) {
  constexpr std::string_view kXmp("XML:com.adobe.xmp\0\0", 19);  // keyword, its end, "not compressed"
  OrientationSources found;
  size_t at = 8;  // behind the signature
  while (at + 12 <= bytes.size()) {
    const size_t length = ReadBigEndian(&bytes[at]);
    if (length > bytes.size() - at - 12) break;
    const std::string_view type(reinterpret_cast<const char*>(&bytes[at + 4]), 4);
    const auto body = bytes.subspan(at + 8, length);
    if (type == "eXIf" && found.exif.empty()) found.exif = body;
    if (type == "iTXt" && found.xmp.empty() &&
        std::string_view(reinterpret_cast<const char*>(body.data()), body.size()).starts_with(kXmp)) {
      found.xmp = body.subspan(kXmp.size());
    }
    at += 12 + length;
  }
  return found;
}

// 16-bit gray to RGB: above 255 is white. That is what Pillow's convert("RGB") does, so what models were fed in Python.
// In place, from the end: three bytes out for two in.
void Gray16ToRgb(uint8_t* pixels, size_t count) {
  for (size_t i = count; i-- > 0;) {
    uint16_t value = 0;
    std::memcpy(&value, pixels + i * 2, 2);
    std::memset(pixels + i * 3, value > 255 ? 255 : value, 3);
  }
}

// An alpha channel, or a transparent colour.
bool HasAlpha(spng_ctx* context, const spng_ihdr& header) {
  if (header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA || header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA) {
    return true;
  }
  spng_trns transparent{};
  return spng_get_trns(context, &transparent) == 0;
}

absl::Status PngStatus(int error, size_t bytes) {
  if (error == SPNG_EMEM) return absl::ResourceExhaustedError("no memory to decode a PNG image");
  if (error == SPNG_IO_EOF || error == SPNG_EOF || error == SPNG_EIDAT_TOO_SHORT) {
    return TruncatedImage("PNG", bytes, spng_strerror(error));
  }
  return BrokenImage("PNG", spng_strerror(error));
}

}  // namespace

absl::StatusOr<RgbImage> DecodePng(std::span<const uint8_t> bytes, Transparency transparency, uint64_t max_pixels,
                                   PixelBuffer& pixels) {
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(0));
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for a PNG decoder");
  spng_ihdr header{};
  int error = spng_set_png_buffer(context.get(), bytes.data(), bytes.size());
  if (error == 0) error = spng_set_chunk_limits(context.get(), kMaxMetadataBytes, kMaxMetadataBytes);
  // A wrong checksum on metadata is no reason to lose the picture.
  if (error == 0) error = spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  if (error == 0) error = spng_get_ihdr(context.get(), &header);
  if (error != 0) return PngStatus(error, bytes.size());
  if (auto status = CheckPixels(header.width, header.height, max_pixels); !status.ok()) return status;

  const bool gray16 = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth == 16;
  const bool on_white = transparency == Transparency::kOnWhite && !gray16 && HasAlpha(context.get(), header);
  const size_t count = size_t{header.width} * header.height;
  uint8_t* rgb = pixels.Reserve(count * (on_white ? 4 : 3) + kPixelTailBytes).data();
  // RGB8: palettes looked up, alpha dropped, of 16 bits the upper 8; all as Pillow does.
  if (gray16) {
    error = spng_decode_image(context.get(), rgb, count * 2, SPNG_FMT_PNG, 0);
  } else if (on_white) {
    error = spng_decode_image(context.get(), rgb, count * 4, SPNG_FMT_RGBA8, SPNG_DECODE_TRNS);
  } else {
    error = spng_decode_image(context.get(), rgb, count * 3, SPNG_FMT_RGB8, 0);
  }
  if (error != 0) return PngStatus(error, bytes.size());
  if (gray16) Gray16ToRgb(rgb, count);
  if (on_white) LayOnWhite(rgb, count);
  return RgbImage{
      .rgb = rgb, .width = header.width, .height = header.height, .orientation = FindOrientation(FindMetadata(bytes))};
}

}  // namespace tributary
