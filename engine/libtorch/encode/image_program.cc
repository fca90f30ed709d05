#include "engine/libtorch/encode/image_program.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/compute_type.h"
#include "engine/libtorch/encode/conse_head.h"
#include "engine/libtorch/encode/image_encoder.h"
#include "engine/libtorch/encode/image_families.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {
namespace {

// How many images go through the encoder at once; a larger batch goes through in slices of so many. It is what a batch
// holds by default too: what is gained by more ends there, and so does what warming up takes, whatever the limits of
// the configuration. Convolutional networks. CPU: one core, fp32, EfficientNet-Lite0, images/s at 1, 2, 4, 8 images:
// 52, 60, 72, 54: from 8 on the early layers' activations (5 MB an image) are mapped afresh by the allocator at every
// layer.
constexpr int64_t kCpuSliceItems = 4;
constexpr int64_t kCudaSliceItems = 64;
// Transformers: the tokens of a text batch (encode/text_program), for the same products. On CPU an image of 257 tokens
// alone keeps a core busy.
constexpr int64_t kCpuSliceTokens = 512;
constexpr int64_t kCudaSliceTokens = 8192;
constexpr int64_t kCudaMostItems = 256;  // of the smallest images

class ImageProgram final : public BatchProgram {
 public:
  ImageProgram(std::unique_ptr<ImageEncoder> encoder, std::optional<ConseHead> head, int64_t dimensions,
               ProgramDevice device, size_t max_items, int64_t slice_items)
      : encoder_(std::move(encoder)),
        head_(std::move(head)),
        dimensions_(dimensions),
        height_(encoder_->info().height),
        width_(encoder_->info().width),
        device_(device),
        max_items_(max_items),
        slice_items_(slice_items) {}

  uint32_t OutputDimension() const override { return static_cast<uint32_t>(dimensions_); }
  uint64_t MaxBatchUnits() const override { return max_items_ * ImagePixels(); }
  size_t MaxBatchItems() const override { return max_items_; }
  size_t MaxInputBytes() const override { return max_items_ * ImageBytes(); }

  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    StagedBatch staged;
    staged.batch_size = batch.items.size();
    staged.input_bytes = staged.batch_size * ImageBytes();
    staged.computed_units = staged.batch_size * ImagePixels();
    if (staged.batch_size > max_items_ || staged.input_bytes > input.size()) {
      return absl::InternalError(absl::StrCat("a batch of ", staged.batch_size, " images for a program of ", max_items_,
                                              " and a slot of ", input.size(), " bytes"));
    }
    std::byte* to = input.data();
    for (const WorkItemPtr& item : batch.items) {
      const auto* block = std::get_if<PixelBlock>(&item->prepared);
      if (block == nullptr || block->width != width_ || block->height != height_ || block->rgb.size() != ImageBytes()) {
        return absl::InternalError(absl::StrCat("an image batch holds an item without pixels of the encoder's size, ",
                                                width_, " x ", height_));
      }
      std::memcpy(to, block->rgb.data(), ImageBytes());
      to += ImageBytes();
    }
    return staged;
  }

  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    return GuardTorch([&] {
      const auto batch = static_cast<int64_t>(staged.batch_size);
      const c10::Device place = TorchDevice(device_);
      const at::Tensor images = at::from_blob(const_cast<std::byte*>(input), {batch, height_, width_, 3},
                                              at::TensorOptions().dtype(at::kByte).device(place));
      const at::Tensor rows =
          at::from_blob(output, {batch, dimensions_}, at::TensorOptions().dtype(at::kFloat).device(place));
      for (int64_t first = 0; first < batch; first += slice_items_) {
        const int64_t count = std::min(slice_items_, batch - first);
        at::Tensor vectors = encoder_->Forward(images.narrow(0, first, count));
        if (head_) vectors = head_->Forward(encoder_->classifier().Forward(vectors));
        rows.narrow(0, first, count).copy_(vectors, /*non_blocking=*/true);
      }
      return absl::OkStatus();
    });
  }

  // Runs every size of a slice once on CPU, where each is a primitive of its own; the largest elsewhere.
  absl::Status Warm() const {
    return GuardTorch([&] {
      const c10::Device place = TorchDevice(device_);
      const int64_t most = std::min(static_cast<int64_t>(max_items_), slice_items_);
      const at::Tensor slot =
          at::zeros({most * static_cast<int64_t>(ImageBytes())}, at::TensorOptions().dtype(at::kByte).device(place));
      const at::Tensor rows = at::empty({most, dimensions_}, at::TensorOptions().dtype(at::kFloat).device(place));
      for (int64_t items = device_.kind == DeviceKind::kCpu ? 1 : most; items <= most; ++items) {
        StagedBatch staged;
        staged.batch_size = static_cast<size_t>(items);
        auto status =
            Run(staged, static_cast<const std::byte*>(slot.data_ptr()), static_cast<std::byte*>(rows.data_ptr()));
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }

 private:
  uint64_t ImagePixels() const { return static_cast<uint64_t>(height_ * width_); }
  size_t ImageBytes() const { return ImagePixels() * 3; }

  const std::unique_ptr<const ImageEncoder> encoder_;
  const std::optional<ConseHead> head_;
  const int64_t dimensions_;
  const int64_t height_;
  const int64_t width_;
  const ProgramDevice device_;
  const size_t max_items_;
  const int64_t slice_items_;
};

// Runs one image to see what the encoder makes of it.
absl::StatusOr<int64_t> SliceItems(const ImageEncoder& encoder, const ProgramDevice& device) {
  return GuardTorch([&]() -> absl::StatusOr<int64_t> {
    const bool cuda = device.kind == DeviceKind::kCuda;
    const at::Tensor hidden =
        encoder.Hidden(at::zeros({1, encoder.info().height, encoder.info().width, 3},
                                 at::TensorOptions().dtype(at::kByte).device(TorchDevice(device))));
    constexpr int64_t kTokenDimensions = 3;  // [B, tokens, H]
    if (hidden.dim() != kTokenDimensions) return cuda ? kCudaSliceItems : kCpuSliceItems;
    const int64_t tokens = hidden.size(1);
    return cuda ? std::clamp<int64_t>(kCudaSliceTokens / tokens, 1, kCudaMostItems)
                : std::clamp<int64_t>(kCpuSliceTokens / tokens, 1, kCpuSliceItems);
  });
}

absl::Status CheckLabels(const LabelVectors& labels, int64_t classes, size_t top_classes) {
  if (labels.classes != static_cast<size_t>(classes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("image.labels must name the ", classes, " classes of the encoder, it names ", labels.classes));
  }
  if (top_classes == 0 || top_classes > labels.classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("image.top_classes must be 1 to ", labels.classes, ", is ", top_classes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedImageProgram> LoadImageProgram(const std::string& folder, const ImagePreprocessing& preprocessing,
                                                    const ImageProgramOptions& options, const LabelVectors* labels) {
  auto type = ResolveComputeType(options.dtype, options.device);
  if (!type.ok()) return type.status();
  auto weights = SafetensorsWeights::OpenFolder(folder);
  if (!weights.ok()) return weights.status();
  auto encoder = GuardTorch([&] {
    return LoadImageEncoder(
        folder, *weights,
        {.preprocessing = preprocessing, .type = *type, .device = options.device, .classifier = labels != nullptr});
  });
  if (!encoder.ok()) return encoder.status();
  const ImageEncoderInfo info = (*encoder)->info();
  std::optional<ConseHead> head;
  if (labels != nullptr) {
    const int64_t classes = (*encoder)->classifier().classes();
    if (auto status = CheckLabels(*labels, classes, options.top_classes); !status.ok()) return status;
    auto made = GuardTorch([&]() -> absl::StatusOr<ConseHead> {
      return ConseHead(*labels, static_cast<int64_t>(options.top_classes), options.device);
    });
    if (!made.ok()) return made.status();
    head = *std::move(made);
  }

  const auto slice = SliceItems(**encoder, options.device);
  if (!slice.ok()) return slice.status();
  const size_t max_items = options.max_batch_items > 0 ? options.max_batch_items : static_cast<size_t>(*slice);
  LoadedImageProgram loaded{.program = nullptr,
                            .compute_type = *type,
                            .image_width = preprocessing.width,
                            .image_height = preprocessing.height,
                            .revision = weights->Revision(),
                            .parameter_count = info.parameter_count,
                            .parameter_bytes = info.parameter_bytes};
  const int64_t dimensions = labels != nullptr ? static_cast<int64_t>(labels->dimension) : info.dimensions;
  auto program = std::make_unique<ImageProgram>(*std::move(encoder), std::move(head), dimensions, options.device,
                                                max_items, *slice);
  if (auto status = options.warm ? program->Warm() : absl::OkStatus(); !status.ok()) return status;
  loaded.program = std::move(program);
  return loaded;
}

}  // namespace tributary
