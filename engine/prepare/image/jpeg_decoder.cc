#include <turbojpeg.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "engine/prepare/image/image_format.h"

namespace tributary {
namespace {

constexpr std::string_view kEndOfImage = "\xFF\xD9";
constexpr std::string_view kStartOfScan = "\xFF\xDA";
constexpr uint8_t kScanMarker = 0xDA;
constexpr uint8_t kEndMarker = 0xD9;

// Progressive encoders write about ten. Every scan is a pass over the whole picture, and a few bytes can ask for one:
// large pictures may have fewer, so that all passes together stay within this many over the largest picture.
constexpr size_t kMaxScans = 100;
constexpr uint64_t kMaxPasses = 16;

std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Walks the segments before the first scan.
OrientationSources FindMetadata(std::span<const uint8_t> bytes) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
  constexpr uint8_t kApp1 = 0xE1;
  OrientationSources found;
  size_t at = 2;
  while (at + 4 <= bytes.size()) {
    if (bytes[at] != 0xFF) break;
    const uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    if (marker == kScanMarker) break;
    const size_t length = size_t{bytes[at + 2]} << 8 | bytes[at + 3];
    if (length < 2 || length > bytes.size() - at - 2) break;
    const auto body = bytes.subspan(at + 4, length - 2);
    if (marker == kApp1 && found.exif.empty() && AsText(body).starts_with(kExif)) found.exif = body;
    if (marker == kApp1 && found.xmp.empty() && AsText(body).starts_with(kXmp)) found.xmp = body.subspan(kXmp.size());
    at += 2 + length;
  }
  return found;
}

// Scans up to the end of the picture, found as the decoder finds them: a segment is skipped by its length, what lies
// between segments (a scan's data, in which FF is followed by 0 or a restart marker) up to the next marker.
size_t CountScans(std::span<const uint8_t> bytes) {
  size_t scans = 0;
  const std::string_view text = AsText(bytes);
  for (size_t at = text.find('\xFF', 2); at != std::string_view::npos && at + 4 <= bytes.size();
       at = text.find('\xFF', at)) {
    const uint8_t marker = bytes[at + 1];
    if (marker == kEndMarker) break;
    const bool restart = marker >= 0xD0 && marker <= 0xD7;
    if (marker == 0xFF || marker == 0 || marker == 1 || restart) {  // fill byte, a byte of data, markers without length
      at += marker == 0xFF ? 1 : 2;
      continue;
    }
    if (marker == kScanMarker) ++scans;
    at += 2 + (size_t{bytes[at + 2]} << 8 | bytes[at + 3]);
  }
  return scans;
}

// Whether the data that made the library warn stops before its end marker. Other warnings are oddities that it, like
// Pillow, decodes around.
bool EndsTooEarly(std::span<const uint8_t> bytes, std::string_view warning) {
  if (warning.find("Premature end of JPEG file") != std::string_view::npos) return true;
  const std::string_view text = AsText(bytes);
  const size_t scan = text.rfind(kStartOfScan);
  return scan == std::string_view::npos || text.find(kEndOfImage, scan) == std::string_view::npos;
}

// Adobe's inverted CMYK, which is the only one found in files, to RGB in place. The formula is Pillow's.
void InvertedCmykToRgb(uint8_t* pixels, size_t count) {
  const auto multiply = [](int a, int b) {  // a * b / 255, rounded
    const int product = a * b + 128;
    return ((product >> 8) + product) >> 8;
  };
  const uint8_t* in = pixels;
  for (size_t i = 0; i < count; ++i, in += 4, pixels += 3) {
    const int white = in[3];
    for (int c = 0; c < 3; ++c) pixels[c] = static_cast<uint8_t>(white - multiply(255 - in[c], white));
  }
}

}  // namespace

void JpegDecoder::Destroy::operator()(void* handle) const { tjDestroy(handle); }

absl::StatusOr<RgbImage> JpegDecoder::Decode(std::span<const uint8_t> bytes, uint64_t max_pixels, PixelBuffer& pixels) {
  if (handle_ == nullptr) handle_.reset(tjInitDecompress());
  if (handle_ == nullptr) return absl::ResourceExhaustedError("no memory for a JPEG decoder");
  absl::StatusOr<RgbImage> image = DecodeWithHandle(bytes, max_pixels, pixels);
  // After an error the library's object may remember half a header and fail the next picture.
  if (!image.ok()) handle_.reset();
  return image;
}

absl::StatusOr<RgbImage> JpegDecoder::DecodeWithHandle(std::span<const uint8_t> bytes, uint64_t max_pixels,
                                                       PixelBuffer& pixels) {
  tjhandle handle = handle_.get();

  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  // It also fails for a chroma subsampling without a name, which the decoder itself can handle; the size is known then.
  // Of a header cut short it may say that all is well, and no size.
  const int code = tjDecompressHeader3(handle, bytes.data(), bytes.size(), &width, &height, &subsampling, &colours);
  if (width <= 0 || height <= 0) {
    if (code == 0) return TruncatedImage("JPEG", bytes.size(), "inside the header");
    const std::string_view error = tjGetErrorStr2(handle);
    if (EndsTooEarly(bytes, error)) return TruncatedImage("JPEG", bytes.size(), "inside the header");
    return BrokenImage("JPEG", error);
  }
  if (auto status = CheckPixels(static_cast<uint64_t>(width), static_cast<uint64_t>(height), max_pixels);
      !status.ok()) {
    return status;
  }

  const size_t count = static_cast<size_t>(width) * static_cast<size_t>(height);
  const uint64_t max_scans = std::min<uint64_t>(kMaxScans, kMaxPasses * max_pixels / count);
  if (const size_t scans = CountScans(bytes); scans > max_scans) {
    return BrokenImage("JPEG", "it has " + std::to_string(scans) + " scans, the limit is " + std::to_string(max_scans) +
                                   " for " + std::to_string(count) + " pixels");
  }

  const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  uint8_t* rgb = pixels.Reserve(count * (cmyk ? 4 : 3) + kPixelTailBytes).data();
  // Without TJFLAG_FASTDCT and TJFLAG_FASTUPSAMPLE: the integer DCT and smooth upsampling that Pillow uses.
  // TJFLAG_LIMITSCANS: the library's own count ends at 500, should it read a broken file otherwise than CountScans.
  if (tjDecompress2(handle, bytes.data(), bytes.size(), rgb, width, 0, height, cmyk ? TJPF_CMYK : TJPF_RGB,
                    TJFLAG_LIMITSCANS) != 0) {
    const std::string_view error = tjGetErrorStr2(handle);
    const bool warning = tjGetErrorCode(handle) == TJERR_WARNING;
    if (EndsTooEarly(bytes, error)) {
      return TruncatedImage(
          "JPEG", bytes.size(),
          "no end marker, the header promises " + std::to_string(width) + " x " + std::to_string(height) + " pixels");
    }
    if (!warning) return BrokenImage("JPEG", error);
  }
  if (cmyk) InvertedCmykToRgb(rgb, count);
  return RgbImage{.rgb = rgb,
                  .width = static_cast<uint32_t>(width),
                  .height = static_cast<uint32_t>(height),
                  .orientation = FindOrientation(FindMetadata(bytes))};
}

}  // namespace tributary
