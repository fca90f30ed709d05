// A model's answer to prepared inputs outside the lanes, while it loads: label vectors, self-checks. Torch-free.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/queue/work_item.h"

namespace tributary {

// What an input costs in its batch: tokens, pixels, or 1 for a pair.
uint64_t UnitsOf(const Prepared& prepared);

// Vectors f32 [D] in the inputs' order, not normalised, run in batches the program takes. Waits for the device.
// Call it on a thread set up by InitTorchThread. Errors: those of the program.
absl::StatusOr<std::vector<std::vector<float>>> EmbedOnHost(const BatchProgram& program, const ProgramDevice& device,
                                                            const std::vector<Prepared>& inputs);

}  // namespace tributary
