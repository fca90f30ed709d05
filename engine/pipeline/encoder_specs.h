// What the scheduler and the lanes must know of a model's encoders. Used by the pipeline when a model is put in; pure.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/options.h"
#include "engine/lane/lane.h"
#include "engine/pipeline/pipeline.h"
#include "engine/schedule/encoder_spec.h"

namespace tributary {

// One for each modality that the model serves, in their order, and behind it one for its fallback where there is one.
// Errors: INVALID_ARGUMENT a replica on a device that is not one of `device_count`.
absl::StatusOr<std::vector<EncoderSpec>> EncoderSpecsOf(const ServedModel& model, const ScheduleOptions& schedule,
                                                        size_t device_count);

// Makes room for the largest batches of these encoders. Index: device.
void CoverPrograms(const std::vector<EncoderSpec>& specs, std::vector<SlotSize>* by_device);

}  // namespace tributary
