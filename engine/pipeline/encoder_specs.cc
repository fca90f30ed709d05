#include "engine/pipeline/encoder_specs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/lane/batch_program.h"

namespace tributary {

absl::StatusOr<std::vector<EncoderSpec>> EncoderSpecsOf(const ServedModel& model, const ScheduleOptions& schedule,
                                                        size_t device_count) {
  std::vector<EncoderSpec> specs;
  const auto add = [&](Modality modality, const std::vector<ProgramReplica>& replicas, bool fallback) -> absl::Status {
    const BatchOptions& batch = schedule.modalities[static_cast<size_t>(modality)];
    EncoderSpec spec{.modality = modality, .replicas = {}, .fallback = fallback};
    for (const ProgramReplica& replica : replicas) {
      if (replica.device >= device_count) {
        return absl::InvalidArgumentError(absl::StrCat("model '", model.info.name,
                                                       "': ", std::string(ModalityName(modality)),
                                                       " is placed on device ", replica.device, " of ", device_count));
      }
      const BatchProgram& program = *replica.program;
      const uint64_t max_units = batch.max_units == 0 ? program.MaxBatchUnits() : batch.max_units;
      spec.replicas.push_back({replica.device, &program, std::min(max_units, program.MaxBatchUnits()),
                               std::min(batch.max_items, program.MaxBatchItems())});
    }
    if (!spec.replicas.empty()) specs.push_back(std::move(spec));
    return absl::OkStatus();
  };
  for (const Modality modality : kAllModalities) {
    const auto m = static_cast<size_t>(modality);
    if (auto status = add(modality, model.replicas[m], /*fallback=*/false); !status.ok()) return status;
    if (auto status = add(modality, model.fallbacks[m], /*fallback=*/true); !status.ok()) return status;
  }
  return specs;
}

void CoverPrograms(const std::vector<EncoderSpec>& specs, std::vector<SlotSize>* by_device) {
  for (const EncoderSpec& spec : specs) {
    for (const ReplicaSpec& replica : spec.replicas) (*by_device)[replica.device].CoverProgram(*replica.program);
  }
}

}  // namespace tributary
