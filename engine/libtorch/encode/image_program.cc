#include "engine/libtorch/encode/image_program.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/conse_head.h"
#include "engine/libtorch/encode/efficientnet_lite0.h"
#include "engine/libtorch/weights/safetensors.h"

namespace tributary {
namespace {

// One core, fp32, images/s at batches of 1, 2, 4, 8: 52, 60, 72, 54. From 8 on the early layers' activations (5 MB an
// image) are mapped afresh by the allocator at every layer.
constexpr size_t kCpuBatchItems = 4;
constexpr size_t kCudaBatchItems = 64;

constexpr auto kSide = static_cast<uint32_t>(EfficientNetLite0::kImageSize);
constexpr uint64_t kImagePixels = uint64_t{kSide} * kSide;
constexpr size_t kImageBytes = kImagePixels * 3;

class ImageProgram final : public BatchProgram {
 public:
  ImageProgram(EfficientNetLite0 encoder, ConseHead head, size_t dimension, ProgramDevice device, size_t max_items)
      : encoder_(std::move(encoder)),
        head_(std::move(head)),
        dimension_(static_cast<int64_t>(dimension)),
        device_(device),
        max_items_(max_items) {}

  uint32_t OutputDimension() const override { return static_cast<uint32_t>(dimension_); }
  uint64_t MaxBatchUnits() const override { return max_items_ * kImagePixels; }
  size_t MaxBatchItems() const override { return max_items_; }
  size_t MaxInputBytes() const override { return max_items_ * kImageBytes; }

  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    StagedBatch staged;
    staged.batch_size = batch.items.size();
    staged.input_bytes = staged.batch_size * kImageBytes;
    staged.computed_units = staged.batch_size * kImagePixels;
    if (staged.batch_size > max_items_ || staged.input_bytes > input.size()) {
      return absl::InternalError(absl::StrCat("a batch of ", staged.batch_size, " images for a program of ", max_items_,
                                              " and a slot of ", input.size(), " bytes"));
    }
    std::byte* to = input.data();
    for (const WorkItemPtr& item : batch.items) {
      const auto* block = std::get_if<PixelBlock>(&item->prepared);
      if (block == nullptr || block->rgb.size() != kImageBytes) {
        return absl::InternalError("an image batch holds an item without pixels of the encoder's size");
      }
      std::memcpy(to, block->rgb.data(), kImageBytes);
      to += kImageBytes;
    }
    return staged;
  }

  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    return GuardTorch([&] {
      const auto batch = static_cast<int64_t>(staged.batch_size);
      const c10::Device place = TorchDevice(device_);
      const at::Tensor images = at::from_blob(const_cast<std::byte*>(input), {batch, kSide, kSide, 3},
                                              at::TensorOptions().dtype(at::kByte).device(place));
      at::from_blob(output, {batch, dimension_}, at::TensorOptions().dtype(at::kFloat).device(place))
          .copy_(head_.Forward(encoder_.Forward(images)), /*non_blocking=*/true);
      return absl::OkStatus();
    });
  }

  // Runs every batch size once on CPU, where each is a primitive of its own; the largest elsewhere.
  absl::Status Warm() const {
    return GuardTorch([&] {
      const c10::Device place = TorchDevice(device_);
      const auto most = static_cast<int64_t>(max_items_);
      const at::Tensor slot =
          at::zeros({most * static_cast<int64_t>(kImageBytes)}, at::TensorOptions().dtype(at::kByte).device(place));
      const at::Tensor rows = at::empty({most, dimension_}, at::TensorOptions().dtype(at::kFloat).device(place));
      for (size_t items = device_.kind == DeviceKind::kCpu ? 1 : max_items_; items <= max_items_; ++items) {
        StagedBatch staged;
        staged.batch_size = items;
        auto status =
            Run(staged, static_cast<const std::byte*>(slot.data_ptr()), static_cast<std::byte*>(rows.data_ptr()));
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }

 private:
  const EfficientNetLite0 encoder_;
  const ConseHead head_;
  const int64_t dimension_;
  const ProgramDevice device_;
  const size_t max_items_;
};

absl::Status CheckLabels(const LabelVectors& labels, size_t top_classes) {
  if (labels.classes != EfficientNetLite0::kClasses) {
    return absl::InvalidArgumentError(absl::StrCat("image.labels must name the ", EfficientNetLite0::kClasses,
                                                   " classes of the encoder, it names ", labels.classes));
  }
  if (top_classes == 0 || top_classes > labels.classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("image.top_classes must be 1 to ", labels.classes, ", is ", top_classes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedImageProgram> LoadImageProgram(const std::string& folder, const ImageProgramOptions& options,
                                                    const LabelVectors& labels) {
  if (auto status = CheckLabels(labels, options.top_classes); !status.ok()) return status;
  auto type = ResolveComputeType(options.dtype, options.device);
  if (!type.ok()) return type.status();
  auto weights = SafetensorsWeights::OpenFolder(folder);
  if (!weights.ok()) return weights.status();
  auto encoder = GuardTorch([&] { return EfficientNetLite0::Load(*weights, *type, options.device); });
  if (!encoder.ok()) return encoder.status();
  auto head = GuardTorch([&]() -> absl::StatusOr<ConseHead> {
    return ConseHead(labels, static_cast<int64_t>(options.top_classes), options.device);
  });
  if (!head.ok()) return head.status();

  size_t max_items = options.max_batch_items;
  if (max_items == 0) max_items = options.device.kind == DeviceKind::kCuda ? kCudaBatchItems : kCpuBatchItems;
  LoadedImageProgram loaded{.program = nullptr,
                            .compute_type = *type,
                            .image_size = kSide,
                            .revision = weights->Revision(),
                            .parameter_count = encoder->parameter_count(),
                            .parameter_bytes = encoder->parameter_bytes()};
  auto program = std::make_unique<ImageProgram>(*std::move(encoder), *std::move(head), labels.dimension, options.device,
                                                max_items);
  if (auto status = program->Warm(); !status.ok()) return status;
  loaded.program = std::move(program);
  return loaded;
}

}  // namespace tributary
