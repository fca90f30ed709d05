#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>

#include "engine/prepare/image/image_format.h"

namespace tributary {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

// Releases what an iterator holds, also where it found nothing.
struct FrameIterator : WebPIterator {
  FrameIterator() : WebPIterator{} {}
  ~FrameIterator() { WebPDemuxReleaseIterator(this); }
  FrameIterator(const FrameIterator&) = delete;
  FrameIterator& operator=(const FrameIterator&) = delete;
};

// A chunk's bytes, in the input; empty where there is no such chunk.
std::span<const uint8_t> FindChunk(const WebPDemuxer* demuxer, const char* name) {
  WebPChunkIterator chunk{};
  std::span<const uint8_t> bytes;
  if (WebPDemuxGetChunk(demuxer, name, 1, &chunk) != 0) bytes = {chunk.chunk.bytes, chunk.chunk.size};
  WebPDemuxReleaseChunkIterator(&chunk);
  return bytes;
}

}  // namespace

absl::StatusOr<RgbImage> DecodeWebp(std::span<const uint8_t> bytes, Transparency transparency, uint64_t max_pixels,
                                    PixelBuffer& pixels) {
  const WebPData data = {bytes.data(), bytes.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSING_HEADER;
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemuxPartial(&data, &state));
  if (state == WEBP_DEMUX_PARSE_ERROR) return BrokenImage("WebP", "chunks cannot be parsed");
  if (state != WEBP_DEMUX_DONE) return TruncatedImage("WebP", bytes.size(), "chunks are missing");
  if (demuxer == nullptr) return absl::ResourceExhaustedError("no memory for a WebP decoder");

  const uint32_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const uint32_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  if (auto status = CheckPixels(width, height, max_pixels); !status.ok()) return status;

  FrameIterator frame;
  if (WebPDemuxGetFrame(demuxer.get(), 1, &frame) == 0) return BrokenImage("WebP", "it has no frame");
  // The demuxer has checked that the frame lies on the canvas; writing outside would be worse than a wrong picture.
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width <= 0 || frame.height <= 0 ||
      int64_t{frame.x_offset} + frame.width > int64_t{width} ||
      int64_t{frame.y_offset} + frame.height > int64_t{height}) {
    return BrokenImage("WebP", "its frame lies outside the canvas");
  }

  const bool on_white =
      transparency == Transparency::kOnWhite && (WebPDemuxGetI(demuxer.get(), WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG) != 0;
  const size_t channels = on_white ? 4 : 3;
  const size_t stride = width * channels;
  const std::span<uint8_t> canvas = pixels.Reserve(stride * height + kPixelTailBytes);
  if (static_cast<uint32_t>(frame.width) != width || static_cast<uint32_t>(frame.height) != height) {
    std::memset(canvas.data(), 0, canvas.size());
  }
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return absl::InternalError("libwebp has another version than its headers");
  const size_t origin = static_cast<size_t>(frame.y_offset) * stride + static_cast<size_t>(frame.x_offset) * channels;
  config.output.colorspace = on_white ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = canvas.data() + origin;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = canvas.size() - origin;
  switch (WebPDecode(frame.fragment.bytes, frame.fragment.size, &config)) {
    case VP8_STATUS_OK:
      break;
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return TruncatedImage("WebP", bytes.size(), "its frame is not complete");
    default:  // VP8_STATUS_OUT_OF_MEMORY too, which libwebp 1.5 says of damaged frames
      return BrokenImage("WebP", "its frame cannot be decoded");
  }
  if (on_white) LayOnWhite(canvas.data(), size_t{width} * height);
  return RgbImage{.rgb = canvas.data(),
                  .width = width,
                  .height = height,
                  .orientation = FindOrientation(
                      {.exif = FindChunk(demuxer.get(), "EXIF"), .xmp = FindChunk(demuxer.get(), "XMP ")})};
}

}  // namespace tributary
