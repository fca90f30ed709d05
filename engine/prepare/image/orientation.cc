#include "engine/prepare/image/orientation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace tributary {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kTiffShort = 3;
constexpr uint16_t kTiffLong = 4;

// Bounds-checked reads of either byte order.
class TiffReader {
 public:
  TiffReader(std::span<const uint8_t> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<uint32_t> Read(size_t offset, size_t count) const {
    if (offset > bytes_.size() || bytes_.size() - offset < count) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value = value << 8 | bytes_[offset + (big_endian_ ? i : count - 1 - i)];
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_endian_;
};

std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// tiff:Orientation="6" or <tiff:Orientation>6</...>, as Pillow looks for it.
std::optional<uint32_t> FindXmpOrientation(std::span<const uint8_t> xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text = AsText(xmp);
  for (size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return static_cast<uint32_t>(rest[0] - '0');
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint32_t> FindTiffOrientation(std::span<const uint8_t> tiff) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  for (int i = 0; i < 2 && AsText(tiff).starts_with(kPrefix); ++i) tiff = tiff.subspan(kPrefix.size());
  const std::string_view text = AsText(tiff);
  const bool big_endian = text.starts_with("MM");
  if (!big_endian && !text.starts_with("II")) return std::nullopt;
  const TiffReader reader(tiff, big_endian);
  const auto directory = reader.Read(4, 4);
  if (!directory) return std::nullopt;
  const auto entries = reader.Read(*directory, 2);
  if (!entries) return std::nullopt;
  for (size_t i = 0; i < *entries; ++i) {
    // An entry: tag u16, type u16, count u32, value (in place where it fits four bytes).
    const size_t entry = size_t{*directory} + 2 + i * 12;
    const auto tag = reader.Read(entry, 2);
    if (!tag) return std::nullopt;
    if (*tag != kOrientationTag) continue;
    const auto type = reader.Read(entry + 2, 2);
    if (type == kTiffShort) return reader.Read(entry + 8, 2);
    if (type == kTiffLong) return reader.Read(entry + 8, 4);
    return std::nullopt;
  }
  return std::nullopt;
}

Orientation FindOrientation(const OrientationSources& sources) {
  auto value = FindTiffOrientation(sources.exif);
  if (!value) value = FindXmpOrientation(sources.xmp);
  if (!value || *value < 1 || *value > 8) return Orientation::kUpright;
  return static_cast<Orientation>(*value);
}

void CopyUpright(const uint8_t* rgb, uint32_t width, uint32_t height, Orientation orientation, const Rect& part,
                 uint8_t* out) {
  // Upright pixel (x, y) is stored pixel origin + x * step_x + y * step_y.
  const ptrdiff_t column = 3;
  const ptrdiff_t row = ptrdiff_t{3} * width;
  const ptrdiff_t last_column = row - column;
  const ptrdiff_t last_row = row * (ptrdiff_t{height} - 1);
  struct Walk {
    ptrdiff_t origin, step_x, step_y;
  };
  const std::array<Walk, 9> walks = {{
      {},
      {0, column, row},                         // kUpright
      {last_column, -column, row},              // kMirror
      {last_row + last_column, -column, -row},  // kRotate180
      {last_row, column, -row},                 // kFlip
      {0, row, column},                         // kTranspose
      {last_row, -row, column},                 // kRotateRight
      {last_row + last_column, -row, -column},  // kTransverse
      {last_column, row, -column},              // kRotateLeft
  }};
  const Walk walk = walks[static_cast<size_t>(orientation)];
  for (uint32_t y = 0; y < part.height; ++y) {
    const uint8_t* from = rgb + walk.origin + (ptrdiff_t{part.top} + y) * walk.step_y + part.left * walk.step_x;
    if (walk.step_x == column) {
      out = std::copy_n(from, size_t{part.width} * 3, out);
      continue;
    }
    for (uint32_t x = 0; x < part.width; ++x, from += walk.step_x) out = std::copy_n(from, 3, out);
  }
}

}  // namespace tributary
