// Image encoders as lanes run them: pixels into the slot, one vector an image out. Torch-free door to
// encode/efficientnet_lite0 and its ConSE head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/conse_labels.h"

namespace tributary {

struct ImageProgramOptions {
  std::string dtype = "auto";
  ProgramDevice device = {};
  size_t max_batch_items = 0;  // 0: 4 on CPU, 64 on CUDA
  size_t top_classes = 10;     // k of ConSE
};

struct LoadedImageProgram {
  std::unique_ptr<BatchProgram> program;
  ComputeType compute_type = ComputeType::kFp32;
  uint32_t image_size = 0;  // side of the square it takes, pixels
  std::string revision;     // content hash of the weights
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;  // in the types they are run in
};

// Loads model.safetensors of `folder`, and on CPU runs every batch size once, so that no shape is first met under load.
// Call it on a thread set up by InitTorchThread. A unit of this program is a pixel: an image has image_size^2.
// Shapes of the slot: u8 [B, image_size, image_size, 3], B = number of items: nothing is padded.
// Output: f32 [B, labels.dimension], not normalised.
// Errors: INVALID_ARGUMENT / NOT_FOUND naming file, tensor or key; RESOURCE_EXHAUSTED out of memory.
absl::StatusOr<LoadedImageProgram> LoadImageProgram(const std::string& folder, const ImageProgramOptions& options,
                                                    const LabelVectors& labels);

}  // namespace tributary
