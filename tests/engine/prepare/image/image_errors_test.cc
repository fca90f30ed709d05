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

// Size fields of a golden overwritten: what a header may promise costs nothing to write.
std::string PngPromising(uint32_t width, uint32_t height) {
  std::string png = ReadGolden("png_rgb.png");
  for (int i = 0; i < 4; ++i) {
    png[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    png[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  uint32_t crc = 0xFFFFFFFF;  // the header chunk's checksum must fit
  for (size_t i = 12; i < 29; ++i) {
    crc ^= static_cast<uint8_t>(png[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  crc = ~crc;
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  return png;
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
}

TEST_CASE("Any cut and any flipped byte gets an answer, and the next picture is none the worse") {
  const std::string file = GENERATE("jpeg_progressive.jpg", "jpeg_cmyk.jpg", "png_palette_transparent.png",
                                    "png_interlaced_16bit.png", "webp_alpha.webp", "webp_animated.webp");
  const std::string whole = ReadGolden(file);
  const auto preparer = MakeImagePreparer({.size = 48}, InputLimits{.max_image_pixels = 1 << 20});
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

TEST_CASE("A header that promises more pixels than its data holds is refused") {
  const auto preparer = DefaultPreparer();
  RequireRefused(StatusOf(*preparer, PngPromising(90, 3000)), "image is truncated: PNG");
  RequireRefused(StatusOf(*preparer, PngPromising(0xFFFFFFFF, 0xFFFFFFFF)), "image");
  RequireRefused(StatusOf(*preparer, PngPromising(0, 10)), "image is broken: PNG");
  RequireRefused(StatusOf(*preparer, JpegPromising(0, 10)), "image is broken: JPEG");
}

TEST_CASE("Byte and pixel limits hold for encoded and raw pictures alike, and are named") {
  InputLimits limits;
  limits.max_image_bytes = 10000;
  limits.max_image_pixels = 3000;
  const auto preparer = MakeImagePreparer({}, limits);
  RequireRefused(StatusOf(*preparer, std::string(10001, 'x')), "image has 10001 bytes, the limit is 10000");
  RequireRefused(StatusOf(*preparer, ReadGolden("webp_lossy.webp")),
                 "image is too large: 90 x 67, the limit is 3000 pixels");
  const std::string rows(10002, '\0');
  ImageInput input;
  input.raw_rgb = ImageInput::RawRgb{rows, 3334, 1};
  RequireRefused(preparer->Prepare(input).status(), "image has 10002 bytes, the limit is 10000");
  input.raw_rgb = ImageInput::RawRgb{std::string_view(rows).substr(0, 9003), 3001, 1};
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
