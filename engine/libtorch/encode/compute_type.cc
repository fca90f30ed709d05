#include "engine/libtorch/encode/compute_type.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/linear.h"

namespace tributary {
namespace {

// Whether oneDNN has bf16 products for this processor at all.
bool CpuMultipliesBf16() {
  return c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_is_mkldnn_bf16_supported", "").typed<bool()>().call();
}

// One layer, of a size that every encoder comes near, in both types by turns. The best of each counts: a pause of the
// machine must not decide.
bool TrialFindsBf16Faster() {
  constexpr int64_t kRows = 128;
  constexpr int64_t kInputs = 384;
  constexpr int64_t kOutputs = 1536;
  constexpr int kTurns = 6;  // the first of which builds the primitives
  struct Contender {
    Linear layer;
    at::Tensor rows;
    double best_seconds = std::numeric_limits<double>::infinity();
  };
  const at::Tensor weight = at::rand({kOutputs, kInputs});
  const at::Tensor rows = at::rand({kRows, kInputs});
  const auto contender = [&](ComputeType type) {
    return Contender{.layer = Linear(weight, weight.select(1, 0).clone(), type, {}), .rows = rows.to(TorchType(type))};
  };
  std::array contenders = {contender(ComputeType::kFp32), contender(ComputeType::kBf16)};
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Contender& one : contenders) {
      const auto begin = std::chrono::steady_clock::now();
      one.layer.Forward(one.rows, Activation::kGelu);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      one.best_seconds = std::min(one.best_seconds, taken.count());
    }
  }
  return contenders[0].best_seconds > kWorthwhileSpeedup * contenders[1].best_seconds;
}

bool Bf16Pays() {
  static const bool pays = CpuMultipliesBf16() && TrialFindsBf16Faster();
  return pays;
}

}  // namespace

absl::StatusOr<ComputeType> ResolveComputeType(std::string_view dtype, const ProgramDevice& device) {
  const bool cuda = device.kind == DeviceKind::kCuda;
  if (dtype == "auto") {
    if (cuda) return ComputeType::kFp16;
    return GuardTorch(
        []() -> absl::StatusOr<ComputeType> { return Bf16Pays() ? ComputeType::kBf16 : ComputeType::kFp32; });
  }
  if (dtype == "fp32") return ComputeType::kFp32;
  if (dtype == "bf16") {
    auto supported = GuardTorch([&]() -> absl::StatusOr<bool> { return cuda || CpuMultipliesBf16(); });
    if (!supported.ok()) return supported.status();
    if (*supported) return ComputeType::kBf16;
    return absl::InvalidArgumentError("dtype bf16 needs a processor with AVX-512 or AMX; use auto or fp32");
  }
  if (dtype == "fp16" && cuda) return ComputeType::kFp16;
  if (dtype == "fp16") {
    return absl::InvalidArgumentError("dtype fp16 needs a CUDA device; on cpu: auto, fp32, bf16, int8");
  }
  if (dtype == "int8" && !cuda) return ComputeType::kInt8;
  if (dtype == "int8") {
    return absl::InvalidArgumentError("dtype int8 is for cpu only; on a CUDA device: auto, fp32, bf16, fp16");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype must be auto, fp32, bf16, fp16 or int8, is '", std::string(dtype), "'"));
}

}  // namespace tributary
