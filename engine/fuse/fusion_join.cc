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

absl::StatusOr<std::vector<float>> FusionJoin::NormalisedPart(size_t part) const {
  std::vector<float> normalised = parts_[part].vector;
  if (normalised.empty()) return normalised;
  if (absl::Status status = CheckAndNormalise(normalised, true); !status.ok()) return status;
  return normalised;
}

}  // namespace tributary
