// Fusion as lanes run it: the parts of pairs into the slot, one vector a pair out. Torch-free door to
// fuse/fusion_module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/device/program_device.h"

namespace tributary {

struct FusionProgramOptions {
  FusionOptions fusion;
  ProgramDevice device = {};
  uint32_t dimension = 0;        // D of both parts
  size_t max_batch_items = 256;  // pairs; also the budget in units
};

struct LoadedFusionProgram {
  std::unique_ptr<BatchProgram> program;
  uint64_t parameter_count = 0;  // of a learned kind
  uint64_t parameter_bytes = 0;
  std::string revision;  // content hash of the weights; empty: there are none
};

// Shapes of the slot: parts f32 [B, 2, D] (0 text, 1 image; zeros where absent), mask f32 [B, 2]. A unit is a pair.
// Runs one full batch, so that nothing is first met under load.
// Errors: INVALID_ARGUMENT unknown kind; NOT_FOUND / INVALID_ARGUMENT naming file, tensor or key of a learned one.
absl::StatusOr<LoadedFusionProgram> LoadFusionProgram(const FusionProgramOptions& options);

}  // namespace tributary
