// Where the parts of a model are to run. Torch-free; made by engine_factory, read by model_loader and its parts.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "engine/api/types.h"
#include "engine/libtorch/device/program_device.h"

namespace tributary {

// A device that has lanes.
struct PlacedDevice {
  ProgramDevice device;
  size_t index = 0;  // in PipelineParts::devices
};

// A replica on each device of the list. Not empty for what the model serves. Index: Modality.
using ModelPlacement = std::array<std::vector<PlacedDevice>, kModalityCount>;

inline const std::vector<PlacedDevice>& DevicesOf(const ModelPlacement& placement, Modality modality) {
  return placement[static_cast<size_t>(modality)];
}

}  // namespace tributary
