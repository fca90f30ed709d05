// Runs a program outside the lanes, from host memory to host memory, whatever its device: warm-up, and label vectors
// while a model loads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/device/program_device.h"

namespace tributary {

// `input`: what Stage wrote, on the host. Result f32 [staged.batch_size, OutputDimension()], row-major. Waits for the
// device.
absl::StatusOr<std::vector<float>> RunOnHost(const BatchProgram& program, const ProgramDevice& device,
                                             const StagedBatch& staged, std::span<const std::byte> input);

}  // namespace tributary
