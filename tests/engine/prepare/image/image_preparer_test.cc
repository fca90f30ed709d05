#include "engine/prepare/image/image_preparer.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tests/engine/prepare/image/golden_image.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

// Output side of the format goldens.
constexpr uint32_t kFormatSize = 48;

PixelBlock Prepare(const ImagePreparer& preparer, std::string_view encoded) {
  ImageInput input;
  input.encoded = encoded;
  auto block = preparer.Prepare(input);
  INFO(block.status().ToString());
  REQUIRE(block.ok());
  return *std::move(block);
}

int LargestDifference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  REQUIRE(a.size() == b.size());
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  return largest;
}

// Bit equality, not only 1/255: true with Pillow 13.0.0, libjpeg-turbo 2.1.5 against its 3.2.0, libwebp 1.2.4
// against 1.6.0.
void RequireEqualToPillow(const std::string& file, uint32_t size) {
  CAPTURE(file);
  const auto preparer = MakeImagePreparer({.width = size, .height = size}, InputLimits{});
  const PixelBlock block = Prepare(*preparer, ReadGolden(file));
  CHECK(block.width == size);
  CHECK(block.height == size);
  CHECK(LargestDifference(block.rgb, ReadGoldenPixels(file.substr(0, file.rfind('.')) + ".ppm")) == 0);
}

TEST_CASE("A photo becomes exactly the pixels that Pillow makes of it") {
  RequireEqualToPillow(GENERATE("photo_cat.jpg", "photo_coffee.jpg"), 224);
}

TEST_CASE("Every kind of JPEG becomes the pixels that Pillow makes of it") {
  RequireEqualToPillow(GENERATE("jpeg_420.jpg", "jpeg_444.jpg", "jpeg_422.jpg", "jpeg_progressive.jpg",
                                "jpeg_restart.jpg", "jpeg_gray.jpg", "jpeg_cmyk.jpg", "jpeg_ycck.jpg", "jpeg_rgb.jpg"),
                       kFormatSize);
}

TEST_CASE("Every kind of PNG becomes the pixels that Pillow makes of it") {
  RequireEqualToPillow(
      GENERATE("png_rgb.png", "png_gray.png", "png_gray_alpha.png", "png_rgba.png", "png_palette.png",
               "png_palette_transparent.png", "png_bilevel.png", "png_gray_2bit.png", "png_gray_4bit.png",
               "png_gray_transparent.png", "png_rgb_transparent.png", "png_gray_16bit.png", "png_rgb_16bit.png",
               "png_rgba_16bit.png", "png_interlaced.png", "png_interlaced_gray_1bit.png", "png_interlaced_16bit.png"),
      kFormatSize);
}

TEST_CASE("Pictures of one pixel, one column, one row and of the output's own size become what Pillow makes of them") {
  RequireEqualToPillow(GENERATE("png_1x1.png", "png_1x2000.png", "png_2000x1.png", "png_3x2.png", "png_exact.png"),
                       kFormatSize);
}

TEST_CASE("Every kind of WebP becomes the pixels that Pillow makes of it, an animation those of its first frame") {
  RequireEqualToPillow(GENERATE("webp_lossy.webp", "webp_lossless.webp", "webp_alpha.webp", "webp_alpha_lossless.webp",
                                "webp_animated.webp", "webp_offset_frame.webp"),
                       kFormatSize);
}

TEST_CASE("A camera's orientation is applied as PIL.ImageOps.exif_transpose does, in all eight directions") {
  RequireEqualToPillow("jpeg_exif_" + std::to_string(GENERATE(range(1, 9))) + ".jpg", kFormatSize);
}

TEST_CASE("The orientation is also found in PNG, in WebP and in XMP") {
  RequireEqualToPillow(GENERATE("png_exif_6.png", "webp_exif_8.webp", "jpeg_xmp_3.jpg"), kFormatSize);
}

TEST_CASE("Broken EXIF and data behind the end of the picture do no harm, as in Pillow") {
  RequireEqualToPillow(GENERATE("jpeg_exif_broken.jpg", "jpeg_trailing_data.jpg"), kFormatSize);
}

TEST_CASE("Raw RGB rows become the same pixels as the same picture encoded without loss") {
  // At this size the crop of 80 x 80 is the middle 48 x 48, unscaled: the raw picture is laid around it.
  const auto preparer = MakeImagePreparer({.width = kFormatSize, .height = kFormatSize}, InputLimits{});
  const PixelBlock expected = Prepare(*preparer, ReadGolden("png_exact.png"));
  const std::vector<uint8_t> middle = ReadGoldenPixels("png_exact.ppm");
  std::vector<uint8_t> raw(80 * 80 * 3, 0);
  for (size_t y = 0; y < kFormatSize; ++y) {
    std::copy_n(middle.begin() + static_cast<std::ptrdiff_t>(y * kFormatSize * 3), kFormatSize * 3,
                raw.begin() + static_cast<std::ptrdiff_t>(((y + 16) * 80 + 16) * 3));
  }
  ImageInput input;
  input.raw_rgb = ImageInput::RawRgb{{reinterpret_cast<const char*>(raw.data()), raw.size()}, 80, 80};
  const auto block = preparer->Prepare(input);
  REQUIRE(block.ok());
  CHECK(block->rgb == expected.rgb);
}

TEST_CASE("One preparer serves many threads at once and pictures of any size after each other") {
  const auto preparer = MakeImagePreparer({.width = kFormatSize, .height = kFormatSize}, InputLimits{});
  const std::vector<std::string> names = {"jpeg_progressive", "png_1x2000", "photo_cat", "webp_alpha", "jpeg_cmyk"};
  const std::vector<std::string> ends = {".jpg", ".png", ".jpg", ".webp", ".jpg"};
  std::vector<std::string> files;
  std::vector<std::vector<uint8_t>> expected;
  for (size_t i = 0; i < names.size(); ++i) {
    files.push_back(ReadGolden(names[i] + ends[i]));
    expected.push_back(
        Prepare(*MakeImagePreparer({.width = kFormatSize, .height = kFormatSize}, InputLimits{}), files.back()).rgb);
  }
  std::vector<size_t> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t round = 0; round < 20; ++round) {
        const size_t i = (round + t) % files.size();
        ImageInput input;
        input.encoded = files[i];
        const auto block = preparer->Prepare(input);
        if (!block.ok() || block->rgb != expected[i]) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<size_t>(4, 0));
}

}  // namespace
}  // namespace tributary
