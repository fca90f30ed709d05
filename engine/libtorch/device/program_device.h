// Where a program's weights live and its work runs. Torch-free: chosen by the factory, given to every program.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace tributary
