#include "engine/fuse/fusion_join.h"

#include <utility>

#include "engine/base/vector_check.h"

namespace tributary {

bool FusionJoin::Arrive(size_t part, absl::Status status, std::vector<float> vector) {
  parts_[part] = {std::move(status), std::move(vector)};
  return waiting_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

absl::Status FusionJoin::status() const {
  absl::Status status = parts_[kText].status;
  status.Update(parts_[kImage].status);
  return status;
}

absl::StatusOr<FusionParts> FusionJoin::NormalisedParts() const {
  FusionParts normalised;
  for (size_t i = 0; i < parts_.size(); ++i) {
    std::vector<float>& part = normalised.parts[i] = parts_[i].vector;
    if (part.empty()) continue;
    if (absl::Status status = CheckAndNormalise(part, true); !status.ok()) return status;
  }
  return normalised;
}

}  // namespace tributary
