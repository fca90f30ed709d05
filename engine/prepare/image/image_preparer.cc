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
#include "engine/prepare/image/image_format.h"
#include "engine/prepare/image/orientation.h"
#include "engine/prepare/image/resampler.h"
#include "engine/prepare/image/resize_plan.h"
#include "engine/prepare/image/rgb_image.h"

namespace tributary {
namespace {

// What one worker keeps between pictures: a 640x480 photo needs 0.9 MB, a 12-megapixel one is worth a fresh allocation.
constexpr size_t kKeptBytes = size_t{8} << 20;

struct Workspace {
  JpegDecoder jpeg;
  PixelBuffer decoded;
  PixelBuffer upright;
  Resampler resampler;
};

std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class ResizingPreparer final : public ImagePreparer {
 public:
  ResizingPreparer(const ImagePreprocessing& preprocessing, const InputLimits& limits)
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
    auto plan = PlanResize(preprocessing_, width, height);
    if (!plan.ok()) return plan.status();
    auto part = workspace.resampler.Prepare(preprocessing_.resize.filter, *plan);
    if (!part.ok()) return part.status();
    part->left += plan->source.left;
    part->top += plan->source.top;
    const uint8_t* from = image->rgb + (size_t{part->top} * width + part->left) * 3;
    size_t stride = size_t{width} * 3;
    // Raw rows belong to the caller: nothing behind them may be read.
    if (image->orientation != Orientation::kUpright || input.raw_rgb) {
      uint8_t* upright = workspace.upright.Reserve(size_t{part->width} * part->height * 3 + kPixelTailBytes).data();
      CopyUpright(image->rgb, image->width, image->height, image->orientation, *part, upright);
      from = upright;
      stride = size_t{part->width} * 3;
    }

    PixelBlock block;
    block.width = preprocessing_.width;
    block.height = preprocessing_.height;
    const size_t out_stride = size_t{block.width} * 3;
    block.rgb.resize(out_stride * block.height);
    workspace.resampler.Resize(from, stride, block.rgb.data() + plan->top * out_stride + size_t{plan->left} * 3,
                               out_stride);
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
        return DecodePng(bytes, preprocessing_.transparency, max_pixels_, workspace.decoded);
      case ImageFormat::kWebp:
        return DecodeWebp(bytes, preprocessing_.transparency, max_pixels_, workspace.decoded);
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
    workspace->resampler.ShrinkTo(kKeptBytes);
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
  return std::make_unique<ResizingPreparer>(preprocessing, limits);
}

}  // namespace tributary
