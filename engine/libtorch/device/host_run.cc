#include "engine/libtorch/device/host_run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "engine/libtorch/device/torch_device.h"

namespace tributary {

absl::StatusOr<std::vector<float>> RunOnHost(const BatchProgram& program, const ProgramDevice& device,
                                             const StagedBatch& staged, std::span<const std::byte> input) {
  std::vector<float> rows(staged.batch_size * program.OutputDimension());
  if (device.kind == DeviceKind::kCpu) {
    auto status = program.Run(staged, input.data(), reinterpret_cast<std::byte*>(rows.data()));
    if (!status.ok()) return status;
    return rows;
  }
  return GuardTorch([&]() -> absl::StatusOr<std::vector<float>> {
    const auto place = TorchDevice(device);
    const auto count = static_cast<int64_t>(rows.size());
    auto* const bytes = const_cast<std::byte*>(input.data());
    const at::Tensor slot = at::from_blob(bytes, {static_cast<int64_t>(staged.input_bytes)}, at::kByte).to(place);
    const at::Tensor output = at::empty({count}, at::TensorOptions().dtype(at::kFloat).device(place));
    auto status =
        program.Run(staged, static_cast<const std::byte*>(slot.data_ptr()), static_cast<std::byte*>(output.data_ptr()));
    if (!status.ok()) return status;
    at::from_blob(rows.data(), {count}, at::kFloat).copy_(output);
    return rows;
  });
}

}  // namespace tributary
