#include "engine/prepare/image/orientation.h"

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

using namespace std::string_view_literals;

// One directory entry: tag 0x0112, SHORT, one value, 6.
constexpr auto kLittleEndian = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"sv;
constexpr auto kBigEndian = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"sv;

TEST_CASE("The orientation tag is read in both byte orders, with or without the Exif prefix") {
  CHECK(FindTiffOrientation(Bytes(kLittleEndian)) == 6);
  CHECK(FindTiffOrientation(Bytes(kBigEndian)) == 6);
  const std::string prefixed = std::string("Exif\0\0", 6) + std::string(kBigEndian);
  CHECK(FindTiffOrientation(Bytes(prefixed)) == 6);
}

TEST_CASE("A TIFF block cut anywhere is read only up to its end") {
  for (size_t length = 0; length < kLittleEndian.size(); ++length) {
    const std::vector<uint8_t> cut(kLittleEndian.begin(), kLittleEndian.begin() + static_cast<std::ptrdiff_t>(length));
    const auto value = FindTiffOrientation(cut);
    CHECK((!value || *value == 6));
  }
}

TEST_CASE("Values out of range, wrong types and offsets beyond the block count as upright") {
  std::string out_of_range(kLittleEndian);
  out_of_range[18] = 9;
  std::string wrong_type(kLittleEndian);
  wrong_type[12] = 2;
  std::string far_directory(kLittleEndian);
  far_directory[7] = '\xFF';
  for (const std::string& block : {out_of_range, wrong_type, far_directory, std::string("GIF89a"), std::string()}) {
    CHECK(FindOrientation({.exif = Bytes(block), .xmp = {}}) == Orientation::kUpright);
  }
}

TEST_CASE("XMP is asked only where EXIF has no orientation") {
  const auto xmp = Bytes("<a tiff:Orientation=\"8\">"sv);
  CHECK(FindOrientation({.exif = {}, .xmp = xmp}) == Orientation::kRotateLeft);
  CHECK(FindOrientation({.exif = Bytes(kBigEndian), .xmp = xmp}) == Orientation::kRotateRight);
  CHECK(FindOrientation({.exif = {}, .xmp = Bytes("<tiff:Orientation>5</tiff:Orientation>"sv)}) ==
        Orientation::kTranspose);
  CHECK(FindOrientation({.exif = {}, .xmp = Bytes("tiff:Orientation=\""sv)}) == Orientation::kUpright);
}

}  // namespace
}  // namespace tributary
