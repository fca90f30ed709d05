// Image encoders as lanes run them: pixels into the slot, one vector an image out. Torch-free door to
// encode/image_families and to the ConSE head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/encode/conse_labels.h"
#include "engine/prepare/image/image_preprocessing.h"

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
  // Of the images it takes, pixels.
  uint32_t image_width = 0;
  uint32_t image_height = 0;
  std::string revision;  // content hash of the weights
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;  // in the types they are run in
};

// Loads the encoder of `folder` and runs it once at the sizes it will be run at, so that no shape is first met under
// load. Call it on a thread set up by InitTorchThread. preprocessing: what the images that come have been through.
// labels: null: an image's vector is the encoder's own; else ConSE's, of the model's class scores (encode/conse_head).
// A unit of this program is a pixel: an image has width * height.
// Shapes of the slot: u8 [B, height, width, 3], B = number of items: nothing is padded.
// Output: f32 [B, dimensions of the encoder or of the labels], not normalised.
// Errors: INVALID_ARGUMENT / NOT_FOUND naming file, tensor or key; RESOURCE_EXHAUSTED out of memory.
absl::StatusOr<LoadedImageProgram> LoadImageProgram(const std::string& folder, const ImagePreprocessing& preprocessing,
                                                    const ImageProgramOptions& options,
                                                    const LabelVectors* labels = nullptr);

}  // namespace tributary
