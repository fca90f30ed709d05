// Where a program's weights live and its work runs. Torch-free: chosen by the factory, given to every program.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tributary {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct ProgramDevice {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;  // of the CUDA device
  auto operator<=>(const ProgramDevice&) const = default;
};

// The type of weights and activations in the large products. Softmax, norms, pooling and outputs are fp32 always.
// kInt8: linear layers in 8-bit integers (kernels/int8_weight), all else in fp32.
enum class ComputeType : uint8_t { kFp32, kBf16, kFp16, kInt8 };
std::string_view ComputeTypeName(ComputeType type);  // "fp32", "bf16", "fp16", "int8"

// `dtype`: auto, fp32, bf16, fp16, int8. auto: fp16 on CUDA; on CPU bf16 where there is AMX, else fp32: AVX512-bf16
// without AMX was measured at half the speed of fp32 (0.07 against 0.14 TFLOP/s a core, Emerald Rapids with AMX
// masked). Never int8: it costs accuracy, which is the operator's to give up.
// Errors: INVALID_ARGUMENT for another word, and for a type the device cannot run.
absl::StatusOr<ComputeType> ResolveComputeType(std::string_view dtype, const ProgramDevice& device);

}  // namespace tributary
