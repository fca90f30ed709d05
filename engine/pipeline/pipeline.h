// The engine put together: admission -> prepare -> modality queues -> scheduler -> lanes -> join -> completion. Takes
// the model-specific parts ready made, so that the whole flow runs without torch in tests.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/api/observer.h"
#include "engine/api/options.h"
#include "engine/base/clock.h"
#include "engine/lane/batch_program.h"
#include "engine/lane/device.h"
#include "engine/prepare/preparer.h"

namespace tributary {

// A model's encoder on one device.
struct ProgramReplica {
  size_t device = 0;  // index in PipelineParts::devices
  std::unique_ptr<BatchProgram> program;
};

// One served model. `replicas[m]` empty: the model does not serve modality m. Text and image parts go with theirs.
struct ServedModel {
  std::shared_ptr<const void> last;  // let go after all parts; may be null
  ModelInfo info;  // is_default, text, image and pair are set by the pipeline, from the rest of these parts
  std::unique_ptr<TextPreparer> text_preparer;
  std::unique_ptr<ImagePreparer> image_preparer;
  // Text by name; info.prompt_names is set from it, info.default_prompt is one of its names or empty.
  std::map<std::string, std::string> prompts;
  // Where each modality runs: at most one replica a device, all of one output dimension. Any item goes to any of them.
  // Index: Modality.
  std::array<std::vector<ProgramReplica>, kModalityCount> replicas;
  // Where an item runs once more whose vector was not finite, or of length zero: the same encoder in fp32. Same output
  // dimension and limits as the replicas; empty: such an item is an error at once.
  std::array<std::vector<ProgramReplica>, kModalityCount> fallbacks;
};

// A device and its lanes, which all share its programs. Counts are resolved: no 0 any more.
struct DeviceParts {
  std::unique_ptr<Device> device;
  size_t lane_count = 1;
  size_t slots_per_lane = 2;
};

// Makes a model at run time, on the calling thread, warm and ready. Its errors name the model.
using ModelLoader = std::function<absl::StatusOr<ServedModel>(const ModelOptions&)>;

struct PipelineParts {
  std::vector<ServedModel> models;   // the first is the default; not empty
  std::vector<DeviceParts> devices;  // not empty
  ModelLoader loader;                // empty: LoadModel is UNIMPLEMENTED
};

// `clock` and `observer` must outlive the engine. Options must be Validate()d.
// Errors: INVALID_ARGUMENT no model, or a replica on a device that is not there; RESOURCE_EXHAUSTED no thread or no
// memory; what the device says of its lanes.
absl::StatusOr<std::unique_ptr<Engine>> CreatePipeline(const EngineOptions& options, PipelineParts parts, Clock* clock,
                                                       Observer* observer);

}  // namespace tributary
