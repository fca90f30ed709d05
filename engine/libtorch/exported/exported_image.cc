#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/host_run.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/exported/export_checks.h"
#include "engine/libtorch/exported/exported_program.h"
#include "engine/libtorch/exported/open_module.h"

namespace tributary {
namespace {

// As encode/image_program: past a few images a core's caches are left.
constexpr size_t kCpuBatchItems = 4;
constexpr size_t kCudaBatchItems = 64;
constexpr int64_t kChannels = 3;

// u8 [B, S, S, 3] -> the module's own type and layout.
class PixelTransform {
 public:
  PixelTransform(const ExportedImagePart& part, ElementType type, c10::Device place)
      : channels_last_(part.channels_last), type_(TorchElementType(type)) {
    std::array<float, kChannels> scale{};
    std::array<float, kChannels> shift{};
    for (size_t c = 0; c < scale.size(); ++c) {
      scale[c] = static_cast<float>(part.rescale / part.std[c]);
      shift[c] = static_cast<float>(part.mean[c] / part.std[c]);
    }
    const std::vector<int64_t> shape = channels_last_ ? std::vector<int64_t>{kChannels} : std::vector<int64_t>{3, 1, 1};
    scale_ = at::tensor(at::ArrayRef<float>(scale)).view(shape).to(place);
    shift_ = at::tensor(at::ArrayRef<float>(shift)).view(shape).to(place);
  }

  // Contiguous, as compiled modules expect it. fp32 until the last step.
  at::Tensor operator()(const at::Tensor& images) const {
    const at::Tensor pixels = channels_last_ ? images : images.permute({0, 3, 1, 2});
    if (type_ == at::kByte) return pixels.contiguous();
    return pixels.to(at::kFloat, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous)
        .mul_(scale_)
        .sub_(shift_)
        .to(type_);
  }

 private:
  const bool channels_last_;
  const at::ScalarType type_;
  at::Tensor scale_;  // f32 [3], or [3, 1, 1]
  at::Tensor shift_;
};

class ExportedImage final : public BatchProgram {
 public:
  ExportedImage(ExportManifest manifest, std::shared_ptr<const ExportedModule> module, ProgramDevice device,
                size_t max_items)
      : manifest_(std::move(manifest)),
        module_(std::move(module)),
        device_(device),
        max_items_(max_items),
        side_(manifest_.image->size),
        image_bytes_(size_t{side_} * side_ * kChannels),
        transform_(*manifest_.image, manifest_.inputs[0].type, TorchDevice(device)) {}

  uint32_t OutputDimension() const override { return static_cast<uint32_t>(manifest_.output.dimension); }
  uint64_t MaxBatchUnits() const override { return max_items_ * side_ * side_; }
  size_t MaxBatchItems() const override { return max_items_; }
  size_t MaxInputBytes() const override { return max_items_ * image_bytes_; }

  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    StagedBatch staged = Staged(batch.items.size());
    if (staged.batch_size > max_items_ || staged.input_bytes > input.size()) {
      return absl::InternalError(absl::StrCat("a batch of ", staged.batch_size, " images for a program of ", max_items_,
                                              " and a slot of ", input.size(), " bytes"));
    }
    std::byte* to = input.data();
    for (const WorkItemPtr& item : batch.items) {
      const auto* block = std::get_if<PixelBlock>(&item->prepared);
      if (block == nullptr || block->rgb.size() != image_bytes_) {
        return absl::InternalError("an image batch holds an item without pixels of the export's size");
      }
      std::memcpy(to, block->rgb.data(), image_bytes_);
      to += image_bytes_;
    }
    return staged;
  }

  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    return GuardTorch([&] {
      const auto batch = static_cast<int64_t>(staged.batch_size);
      const int64_t padded = std::max(batch, manifest_.batch.min);
      const c10::Device place = TorchDevice(device_);
      const at::TensorOptions bytes = at::TensorOptions().dtype(at::kByte).device(place);
      at::Tensor images = at::from_blob(const_cast<std::byte*>(input), {batch, side_, side_, kChannels}, bytes);
      if (padded > batch) {
        const at::Tensor filled = at::zeros({padded, side_, side_, kChannels}, bytes);
        filled.narrow(0, 0, batch).copy_(images);
        images = filled;
      }
      const int64_t width = manifest_.output.dimension;
      const at::Tensor found = module_->Forward({transform_(images)});
      CheckOutput(manifest_, found, {padded, width});
      at::from_blob(output, {batch, width}, at::TensorOptions().dtype(at::kFloat).device(place))
          .copy_(found.narrow(0, 0, batch), /*non_blocking=*/true);
      return absl::OkStatus();
    });
  }

  // Trial runs: one image and the largest batch, zeros and a pattern; on CPU every batch size between, as each is a
  // shape of its own there.
  absl::Status CheckAndWarm() const {
    auto alone = Try(1);
    if (!alone.ok()) return alone.status();
    auto beside = Try(max_items_);
    if (!beside.ok()) return beside.status();
    const std::string what = absl::StrCat("an image alone and the last of ", max_items_);
    if (auto status = CheckSameVector(manifest_, what, *alone, std::span<const float>(*beside).last(OutputDimension()));
        !status.ok()) {
      return status;
    }
    if (device_.kind != DeviceKind::kCpu) return absl::OkStatus();
    for (size_t images = 2; images < max_items_; ++images) {
      if (auto rows = Try(images); !rows.ok()) return rows.status();
    }
    return absl::OkStatus();
  }

 private:
  StagedBatch Staged(size_t images) const {
    StagedBatch staged;
    staged.batch_size = images;
    staged.input_bytes = images * image_bytes_;
    staged.computed_units = images * side_ * side_;
    return staged;
  }

  // Black images, and behind them one with a pattern.
  absl::StatusOr<std::vector<float>> Try(size_t images) const {
    const StagedBatch staged = Staged(images);
    std::vector<std::byte> slot(staged.input_bytes);
    for (size_t i = 0; i < image_bytes_; ++i) {
      slot[staged.input_bytes - image_bytes_ + i] = static_cast<std::byte>(i * 97 % 251);
    }
    const std::string run = absl::StrCat("a run of ", images, " images of ", side_, " x ", side_, " pixels");
    auto rows = RunOnHost(*this, device_, staged, slot);
    if (!rows.ok()) return WrongExport(manifest_, run, rows.status());
    if (auto status = CheckFinite(manifest_, run, *rows); !status.ok()) return status;
    return rows;
  }

  const ExportManifest manifest_;
  const std::shared_ptr<const ExportedModule> module_;
  const ProgramDevice device_;
  const size_t max_items_;
  const uint32_t side_;
  const size_t image_bytes_;
  const PixelTransform transform_;
};

}  // namespace

absl::StatusOr<LoadedExportedImage> LoadExportedImage(const std::string& folder,
                                                      const ExportedProgramOptions& options) {
  auto manifest = ReadExportManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (!manifest->image) return absl::InvalidArgumentError(absl::StrCat(manifest->path, ": kind is text, not image"));
  auto module = OpenModule(*manifest, options);
  if (!module.ok()) return module.status();
  auto revision = RevisionOf(*manifest);
  if (!revision.ok()) return revision.status();

  size_t max_items = options.max_batch_items;
  if (max_items == 0) max_items = options.device.kind == DeviceKind::kCuda ? kCudaBatchItems : kCpuBatchItems;
  max_items = std::clamp(max_items, static_cast<size_t>(manifest->batch.min), static_cast<size_t>(manifest->batch.max));
  LoadedExportedImage image{.loaded = {.program = nullptr,
                                       .compute_type = manifest->dtype,
                                       .image_width = manifest->image->size,
                                       .image_height = manifest->image->size,
                                       .revision = *std::move(revision),
                                       .parameter_count = manifest->parameter_count,
                                       .parameter_bytes = manifest->parameter_bytes},
                            .normalise = manifest->image->normalise};
  auto program = GuardTorch([&]() -> absl::StatusOr<std::unique_ptr<ExportedImage>> {
    return std::make_unique<ExportedImage>(*std::move(manifest), *std::move(module), options.device, max_items);
  });
  if (!program.ok()) return program.status();
  if (auto status = (*program)->CheckAndWarm(); !status.ok()) return status;
  image.loaded.program = *std::move(program);
  return image;
}

}  // namespace tributary
