#include "engine/libtorch/fuse/fusion_program.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/host_run.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/fuse/fusion_module.h"

namespace tributary {
namespace {

constexpr size_t kParts = 2;

class FusionProgram final : public BatchProgram {
 public:
  FusionProgram(std::unique_ptr<FusionModule> module, const FusionProgramOptions& options)
      : module_(std::move(module)),
        device_(options.device),
        dimension_(options.dimension),
        max_batch_items_(options.max_batch_items) {}

  uint32_t OutputDimension() const override { return static_cast<uint32_t>(module_->OutputDimension(dimension_)); }
  uint64_t MaxBatchUnits() const override { return max_batch_items_; }
  size_t MaxBatchItems() const override { return max_batch_items_; }
  size_t MaxInputBytes() const override { return max_batch_items_ * FloatsPerPair() * sizeof(float); }

  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    StagedBatch staged;
    staged.batch_size = batch.items.size();
    staged.computed_units = staged.batch_size;
    staged.input_bytes = staged.batch_size * FloatsPerPair() * sizeof(float);
    if (staged.input_bytes > input.size()) {
      return absl::InternalError(absl::StrCat("a batch of ", staged.batch_size, " pairs needs ", staged.input_bytes,
                                              " bytes of a slot of ", input.size()));
    }
    auto* part_row = reinterpret_cast<float*>(input.data());
    float* mask = part_row + staged.batch_size * kParts * dimension_;
    for (const WorkItemPtr& item : batch.items) {
      const auto* pair = std::get_if<FusionParts>(&item->prepared);
      if (pair == nullptr) return absl::InternalError("a fusion batch holds an item without parts");
      for (const std::vector<float>& part : pair->parts) {
        if (!part.empty() && part.size() != dimension_) {
          return absl::InternalError(absl::StrCat("a part of ", part.size(), " dimensions; fusion takes ", dimension_));
        }
        // Zeros, not what the slot held before: a mask of 0 does not stop a NaN.
        std::fill(std::copy(part.begin(), part.end(), part_row), part_row + dimension_, 0.0f);
        part_row += dimension_;
        *mask++ = part.empty() ? 0.0f : 1.0f;
      }
    }
    return staged;
  }

  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    return GuardTorch([&] {
      const auto options = at::TensorOptions().dtype(at::kFloat).device(TorchDevice(device_));
      const auto batch = static_cast<int64_t>(staged.batch_size);
      auto* const parts = const_cast<float*>(reinterpret_cast<const float*>(input));
      const at::Tensor fused =
          module_->Fuse(at::from_blob(parts, {batch, kParts, dimension_}, options),
                        at::from_blob(parts + staged.batch_size * kParts * dimension_, {batch, kParts}, options));
      at::from_blob(output, {batch, OutputDimension()}, options).copy_(fused, /*non_blocking=*/true);
      return absl::OkStatus();
    });
  }

 private:
  size_t FloatsPerPair() const { return kParts * (dimension_ + size_t{1}); }

  const std::unique_ptr<FusionModule> module_;
  const ProgramDevice device_;
  const uint32_t dimension_;
  const size_t max_batch_items_;
};

}  // namespace

absl::StatusOr<LoadedFusionProgram> LoadFusionProgram(const FusionProgramOptions& options) {
  auto loaded = GuardTorch([&] { return MakeFusionModule(options.fusion, options.dimension, options.device); });
  if (!loaded.ok()) return loaded.status();
  auto program = std::make_unique<FusionProgram>(std::move(loaded->module), options);
  // The first batch under load must not be the one that loads kernels.
  const std::vector<std::byte> slot(program->MaxInputBytes());
  const StagedBatch full{.batch_size = program->MaxBatchItems(),
                         .input_bytes = slot.size(),
                         .computed_units = program->MaxBatchUnits(),
                         .lengths = {},
                         .row_of_item = {}};
  if (auto rows = RunOnHost(*program, options.device, full, slot); !rows.ok()) return rows.status();
  return LoadedFusionProgram{.program = std::move(program),
                             .parameter_count = loaded->parameter_count,
                             .parameter_bytes = loaded->parameter_bytes,
                             .revision = std::move(loaded->revision)};
}

}  // namespace tributary
