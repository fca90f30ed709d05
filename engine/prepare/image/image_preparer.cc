#include "engine/prepare/image/image_preparer.h"

#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/mutex.h"
#include "engine/prepare/image/bicubic_resize.h"
#include "engine/prepare/image/image_format.h"
#include "engine/prepare/image/orientation.h"
#include "engine/prepare/image/rgb_image.h"

namespace tributary {
namespace {

// What one worker keeps between pictures: a 640x480 photo needs 0.9 MB, a 12-megapixel one is worth a fresh allocation.
constexpr size_t kKeptBytes = size_t{8} << 20;

struct Workspace {
  JpegDecoder jpeg;
  PixelBuffer decoded;
  PixelBuffer upright;
  BicubicResizer resizer;
};

std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Square CenterCrop(const ImagePreprocessing& preprocessing, uint32_t width, uint32_t height) {
  const uint64_t short_side = std::min(width, height);
  const uint64_t side = short_side * preprocessing.size / (preprocessing.size + preprocessing.crop_padding);
  Square square;
  square.side = static_cast<uint32_t>(std::max<uint64_t>(side, 1));
  square.left = (width - square.side + 1) / 2;
  square.top = (height - square.side + 1) / 2;
  return square;
}

class CenterCropPreparer final : public ImagePreparer {
 public:
  CenterCropPreparer(const ImagePreprocessing& preprocessing, const InputLimits& limits)
      : preprocessing_(preprocessing), max_pixels_(limits.max_image_pixels) {}

  absl::StatusOr<PixelBlock> Prepare(const ImageInput& input) const override {
    std::unique_ptr<Workspace> workspace = Take();
    absl::StatusOr<PixelBlock> block = absl::ResourceExhaustedError("no memory to prepare an image");
    try {
      block = Prepare(input, *workspace);
    } catch (const std::bad_alloc&) {  // keeps the status above
    }
    GiveBack(std::move(workspace));
    return block;
  }

 private:
  absl::StatusOr<PixelBlock> Prepare(const ImageInput& input, Workspace& workspace) const {
    absl::StatusOr<RgbImage> image = input.raw_rgb ? OpenRaw(*input.raw_rgb) : Decode(input.encoded, workspace);
    if (!image.ok()) return image.status();

    uint32_t width = image->width;
    uint32_t height = image->height;
    if (SwapsSides(image->orientation)) std::swap(width, height);
    const Square square = CenterCrop(preprocessing_, width, height);
    const uint8_t* crop = image->rgb + (size_t{square.top} * width + square.left) * 3;
    size_t stride = size_t{width} * 3;
    // Raw rows belong to the caller: nothing behind them may be read.
    if (image->orientation != Orientation::kUpright || input.raw_rgb) {
      uint8_t* upright = workspace.upright.Reserve(size_t{square.side} * square.side * 3 + kPixelTailBytes).data();
      CopyUprightSquare(image->rgb, image->width, image->height, image->orientation, square, upright);
      crop = upright;
      stride = size_t{square.side} * 3;
    }

    PixelBlock block;
    block.width = block.height = preprocessing_.size;
    block.rgb.resize(size_t{preprocessing_.size} * preprocessing_.size * 3);
    workspace.resizer.Resize(crop, stride, square.side, preprocessing_.size, block.rgb.data());
    return block;
  }

  absl::StatusOr<RgbImage> OpenRaw(const ImageInput::RawRgb& raw) const {
    if (auto status = CheckPixels(raw.width, raw.height, max_pixels_); !status.ok()) return status;
    const uint64_t expected = uint64_t{raw.width} * raw.height * 3;
    if (raw.bytes.size() != expected) {
      return absl::InvalidArgumentError(absl::StrCat("raw image of ", raw.width, " x ", raw.height,
                                                     " pixels must have ", expected, " bytes of RGB, it has ",
                                                     raw.bytes.size()));
    }
    return RgbImage{.rgb = AsBytes(raw.bytes).data(), .width = raw.width, .height = raw.height};
  }

  absl::StatusOr<RgbImage> Decode(std::string_view encoded, Workspace& workspace) const {
    if (encoded.empty()) return absl::InvalidArgumentError("image is empty (0 bytes)");
    const auto bytes = AsBytes(encoded);
    switch (SniffFormat(bytes)) {
      case ImageFormat::kJpeg:
        return workspace.jpeg.Decode(bytes, max_pixels_, workspace.decoded);
      case ImageFormat::kPng:
        return DecodePng(bytes, max_pixels_, workspace.decoded);
      case ImageFormat::kWebp:
        return DecodeWebp(bytes, max_pixels_, workspace.decoded);
      case ImageFormat::kUnknown:
        break;
    }
    const std::string_view start = encoded.substr(0, 8);
    return absl::InvalidArgumentError(absl::StrCat("image is neither JPEG, PNG nor WebP: its ", encoded.size(),
                                                   " bytes start with ",
                                                   absl::BytesToHexString({start.data(), start.size()}), " (hex)"));
  }

  std::unique_ptr<Workspace> Take() const TRIBUTARY_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        auto workspace = std::move(idle_.back());
        idle_.pop_back();
        return workspace;
      }
    }
    return std::make_unique<Workspace>();
  }

  void GiveBack(std::unique_ptr<Workspace> workspace) const TRIBUTARY_EXCLUDES(mutex_) {
    workspace->decoded.ShrinkTo(kKeptBytes);
    workspace->upright.ShrinkTo(kKeptBytes);
    workspace->resizer.ShrinkTo(kKeptBytes);
    MutexLock lock(mutex_);
    idle_.push_back(std::move(workspace));
  }

  const ImagePreprocessing preprocessing_;
  const uint64_t max_pixels_;
  mutable Mutex mutex_;
  // As many as threads were ever at work together.
  mutable std::vector<std::unique_ptr<Workspace>> idle_ TRIBUTARY_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ImagePreparer> MakeImagePreparer(const ImagePreprocessing& preprocessing, const InputLimits& limits) {
  return std::make_unique<CenterCropPreparer>(preprocessing, limits);
}

}  // namespace tributary
