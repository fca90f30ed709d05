// What cannot be served: each answered with INVALID_ARGUMENT and a reason, nothing allocated for it.
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <string>

#include "engine/prepare/image/image_preparer.h"
#include "tests/engine/prepare/image/golden_image.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

absl::Status StatusOf(const ImagePreparer& preparer, std::string_view encoded) {
  ImageInput input;
  input.encoded = encoded;
  return preparer.Prepare(input).status();
}

void RequireRefused(const absl::Status& status, const std::string& reason) {
  INFO(status.ToString());
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find(reason) != std::string::npos);
}

std::unique_ptr<ImagePreparer> DefaultPreparer() { return MakeImagePreparer({}, InputLimits{}); }

// Highest resident memory of this process so far, in KiB.
long PeakResidentKib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// A chunk's checksum, over its type and body.
uint32_t PngChecksum(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

// Size fields of a golden overwritten: what a header may promise costs nothing to write.
std::string PngPromising(uint32_t width, uint32_t height) {
  std::string png = ReadGolden("png_rgb.png");
  png.replace(16, 8, BigEndian(width) + BigEndian(height));
  return png.replace(29, 4, BigEndian(PngChecksum(std::string_view(png).substr(12, 17))));
}

// A golden with one more chunk behind its header.
std::string PngWithChunk(const std::string& type, const std::string& body) {
  const std::string typed = type + body;
  return ReadGolden("png_rgb.png")
      .insert(33, BigEndian(static_cast<uint32_t>(body.size())) + typed + BigEndian(PngChecksum(typed)));
}

// Zeros as a zlib stream, not compressed: blocks of at most 50,000 bytes.
std::string ZlibZeros(size_t count) {
  std::string stream = "\x78\x01";
  for (size_t left = count; left > 0;) {
    const auto block = static_cast<uint16_t>(std::min<size_t>(left, 50000));
    left -= block;
    const uint16_t inverse = static_cast<uint16_t>(~block);
    stream += {static_cast<char>(left == 0), static_cast<char>(block), static_cast<char>(block >> 8),
               static_cast<char>(inverse), static_cast<char>(inverse >> 8)};
    stream.append(block, '\0');
  }
  return stream + BigEndian(static_cast<uint32_t>(count % 65521) << 16 | 1);  // Adler-32 of zeros
}

// A progressive golden whose last scan is repeated until it has `scans` of them.
std::string JpegWithScans(size_t scans) {
  std::string jpeg = ReadGolden("jpeg_progressive.jpg");
  const std::string start = "\xFF\xDA";
  const size_t last = jpeg.rfind(start);
  const size_t end = jpeg.rfind("\xFF\xD9");
  REQUIRE(last < end);
  size_t has = 0;
  for (size_t at = jpeg.find(start); at != std::string::npos; at = jpeg.find(start, at + 1)) ++has;
  const std::string scan = jpeg.substr(last, end - last);
  for (; has < scans; ++has) jpeg.insert(end, scan);
  return jpeg;
}

std::string JpegPromising(uint16_t width, uint16_t height) {
  std::string jpeg = ReadGolden("jpeg_420.jpg");
  const size_t frame = jpeg.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  const std::string size = {static_cast<char>(height >> 8), static_cast<char>(height), static_cast<char>(width >> 8),
                            static_cast<char>(width)};
  return jpeg.replace(frame + 5, 4, size);
}

TEST_CASE("No bytes and bytes of no known format are refused with what was found") {
  const auto preparer = DefaultPreparer();
  RequireRefused(StatusOf(*preparer, ""), "image is empty (0 bytes)");
  RequireRefused(StatusOf(*preparer, "GIF89a and more"),
                 "neither JPEG, PNG nor WebP: its 15 bytes start with 474946383961");
  RequireRefused(StatusOf(*preparer, "x"), "its 1 bytes start with 78");
}

TEST_CASE("A picture that ends too early is refused as truncated, wherever it was cut") {
  const std::string file =
      GENERATE("jpeg_420.jpg", "jpeg_progressive.jpg", "jpeg_cmyk.jpg", "png_rgb.png", "png_interlaced.png",
               "png_palette.png", "webp_lossy.webp", "webp_lossless.webp", "webp_alpha.webp", "webp_animated.webp");
  const std::string whole = ReadGolden(file);
  const auto preparer = DefaultPreparer();
  CHECK(StatusOf(*preparer, whole).ok());
  for (const double part : {0.25, 0.5, 0.75, 0.9}) {
    CAPTURE(file, part);
    const auto length = static_cast<size_t>(static_cast<double>(whole.size()) * part);
    RequireRefused(StatusOf(*preparer, std::string_view(whole).substr(0, length)), "image is truncated: ");
  }
  if (file.starts_with("jpeg")) {
    RequireRefused(StatusOf(*preparer, std::string_view(whole).substr(0, 3)), "image is truncated: ");
    RequireRefused(StatusOf(*preparer, std::string_view(whole).substr(0, 30)), "image is truncated: ");
  }
}

TEST_CASE("Any cut and any flipped byte gets an answer, and the next picture is none the worse") {
  const std::string file = GENERATE("jpeg_progressive.jpg", "jpeg_cmyk.jpg", "png_palette_transparent.png",
                                    "png_interlaced_16bit.png", "webp_alpha.webp", "webp_animated.webp");
  const std::string whole = ReadGolden(file);
  const auto preparer = MakeImagePreparer({.width = 48, .height = 48}, InputLimits{.max_image_pixels = 1 << 20});
  const auto answered = [](const absl::Status& status) {
    return status.ok() || status.code() == absl::StatusCode::kInvalidArgument;
  };
  size_t unanswered = 0;
  for (size_t length = 0; length < whole.size(); length += 7) {
    // A copy of exactly this length: the sanitizers see any read behind it.
    const std::string cut(whole, 0, length);
    if (!answered(StatusOf(*preparer, cut))) ++unanswered;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    for (int flips = 0; flips < 3; ++flips) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (!answered(StatusOf(*preparer, damaged))) ++unanswered;
  }
  CHECK(unanswered == 0);
  CHECK(preparer->Prepare({.encoded = whole, .raw_rgb = {}})->rgb ==
        ReadGoldenPixels(file.substr(0, file.rfind('.')) + ".ppm"));
}

TEST_CASE("A picture of 30,000 x 30,000 is refused from its header, without memory") {
  const auto preparer = DefaultPreparer();
  CHECK(StatusOf(*preparer, ReadGolden("png_rgb.png")).ok());
  const std::string png = PngPromising(30000, 30000);
  const std::string jpeg = JpegPromising(30000, 30000);
  const long before_kib = PeakResidentKib();
  for (int i = 0; i < 100; ++i) {
    RequireRefused(StatusOf(*preparer, png), "image is too large: 30000 x 30000, the limit is 41943040 pixels");
    RequireRefused(StatusOf(*preparer, jpeg), "image is too large: 30000 x 30000, the limit is 41943040 pixels");
  }
  // 2.7 GB would be needed for the pixels; 4 MiB is the allocator's own play.
  CHECK(PeakResidentKib() - before_kib < 4096);
}

TEST_CASE(
    "A JPEG of more than 100 scans is refused, a large one of fewer: a small file must not ask for endless work") {
  const auto preparer = DefaultPreparer();
  CHECK(StatusOf(*preparer, JpegWithScans(100)).ok());
  RequireRefused(StatusOf(*preparer, JpegWithScans(101)),
                 "image is broken: JPEG: it has 101 scans, the limit is 100 for");
  // Of a picture as large as the pixel limit, 16 are.
  const auto strict = MakeImagePreparer({}, InputLimits{.max_image_pixels = 90 * 67});
  CHECK(StatusOf(*strict, JpegWithScans(16)).ok());
  RequireRefused(StatusOf(*strict, JpegWithScans(17)), "it has 17 scans, the limit is 16 for 6030 pixels");
  // Scans behind the picture's end, as of a preview a phone appends, do not count.
  CHECK(StatusOf(*preparer, JpegWithScans(60) + JpegWithScans(60)).ok());
}

TEST_CASE("A PNG whose metadata takes more than 4 MiB is refused") {
  const auto preparer = DefaultPreparer();
  const std::string profile("profile\0\0", 9);
  CHECK(StatusOf(*preparer, PngWithChunk("iCCP", profile + ZlibZeros(3 << 20))).ok());
  RequireRefused(StatusOf(*preparer, PngWithChunk("iCCP", profile + ZlibZeros(5 << 20))), "chunk/cache limits");
  const std::string comment("Comment\0", 8);
  CHECK(StatusOf(*preparer, PngWithChunk("tEXt", comment + std::string(3 << 20, 'x'))).ok());
  RequireRefused(StatusOf(*preparer, PngWithChunk("tEXt", comment + std::string(5 << 20, 'x'))), "chunk/cache limits");
  // That is no limit on the picture's own data, though it comes in one piece.
  const size_t side = 1300;
  const std::string rows = ZlibZeros(side * (1 + side * 3));
  const std::string data = "IDAT" + rows;
  std::string png = PngPromising(side, side).substr(0, 33);
  png += BigEndian(static_cast<uint32_t>(rows.size())) + data + BigEndian(PngChecksum(data));
  png += std::string(4, '\0') + "IEND" + BigEndian(PngChecksum("IEND"));
  CHECK(StatusOf(*preparer, png).ok());
}

TEST_CASE("A header that promises more pixels than its data holds is refused") {
  const auto preparer = DefaultPreparer();
  RequireRefused(StatusOf(*preparer, PngPromising(90, 3000)), "image is truncated: PNG");
  RequireRefused(StatusOf(*preparer, PngPromising(0xFFFFFFFF, 0xFFFFFFFF)), "image");
  RequireRefused(StatusOf(*preparer, PngPromising(0, 10)), "image is broken: PNG");
  RequireRefused(StatusOf(*preparer, JpegPromising(0, 10)), "image is broken: JPEG");
}

TEST_CASE("The pixel limit holds for encoded and raw pictures alike, and is named") {
  const auto preparer = MakeImagePreparer({}, InputLimits{.max_image_pixels = 3000});
  RequireRefused(StatusOf(*preparer, ReadGolden("webp_lossy.webp")),
                 "image is too large: 90 x 67, the limit is 3000 pixels");
  const std::string rows(9003, '\0');
  ImageInput input;
  input.raw_rgb = ImageInput::RawRgb{rows, 3001, 1};
  RequireRefused(preparer->Prepare(input).status(), "image is too large: 3001 x 1, the limit is 3000 pixels");
}

TEST_CASE("Raw RGB whose bytes do not fit its size is refused") {
  const auto preparer = DefaultPreparer();
  const std::string rows(30, '\0');
  ImageInput input;
  input.raw_rgb = ImageInput::RawRgb{rows, 5, 3};
  RequireRefused(preparer->Prepare(input).status(), "raw image of 5 x 3 pixels must have 45 bytes of RGB, it has 30");
  input.raw_rgb = ImageInput::RawRgb{rows, 0, 3};
  RequireRefused(preparer->Prepare(input).status(), "image has no pixels: 0 x 3");
  input.raw_rgb = ImageInput::RawRgb{rows, 0xFFFFFFFF, 0xFFFFFFFF};
  RequireRefused(preparer->Prepare(input).status(), "image is too large");
}

}  // namespace
}  // namespace tributary
