// Text encoders as lanes run them: token ids into the slot, one vector a text out. Torch-free door to
// encode/text_families.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/weights/hub_folder.h"

namespace tributary {

struct TextProgramOptions {
  std::string dtype = "auto";
  ProgramDevice device = {};
  uint64_t max_batch_tokens = 0;  // 0: 512 on CPU (GEMM is at full speed there), 8192 on CUDA
  size_t max_batch_items = 256;
  bool pad = false;  // compute every text as long as the batch's longest: only to be measured against
  bool warm = true;  // false: each shape costs its first batch some milliseconds more
};

struct LoadedTextProgram {
  std::unique_ptr<BatchProgram> program;
  ComputeType compute_type = ComputeType::kFp32;
  std::string revision;        // content hash of the weights
  size_t vocabulary_size = 0;  // every id is below it
  size_t max_tokens = 0;       // of one text
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;  // in the types they are run in
  // Of a shared space, see ModelInfo; 0: none.
  double logit_scale = 0;
  double logit_bias = 0;
};

// Loads the weights, and runs every token total that Stage can produce once (of single texts: up to 512 tokens), so
// that no common shape is first met under load. Call it on a thread set up by InitTorchThread. Shapes of the slot,
// int32: ids [T], positions [T], cu_seqlens [B+1], T = RoundedTokenTotal of the lengths' sum; rows sorted by length,
// longest first. Errors: INVALID_ARGUMENT / NOT_FOUND naming file, tensor or key; RESOURCE_EXHAUSTED out of memory.
absl::StatusOr<LoadedTextProgram> LoadTextProgram(const TextModelFolder& folder, const TextProgramOptions& options);

}  // namespace tributary
