// Which type a model's large products run in.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/libtorch/device/program_device.h"

namespace tributary {

// `dtype`: auto, fp32, bf16, fp16, int8. auto: fp16 on CUDA; on CPU bf16 where a trial finds a linear layer at least
// kWorthwhileSpeedup times as fast in it as in fp32, once a process, some 20 ms. (With AMX it is; of processors that
// have AVX512-BF16 alone, Zen 4 is twice as fast in it, Emerald Rapids with AMX masked half as fast: what a processor
// can does not say.) Never int8: it costs accuracy, which is the operator's to give up.
// Call it on a thread set up by InitTorchThread.
// Errors: INVALID_ARGUMENT for another word, and for a type the device cannot run.
inline constexpr double kWorthwhileSpeedup = 1.2;
absl::StatusOr<ComputeType> ResolveComputeType(std::string_view dtype, const ProgramDevice& device);

}  // namespace tributary
