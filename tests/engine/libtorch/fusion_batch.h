// A batch of pairs, as the scheduler forms it.
#pragma once

#include <memory>
#include <vector>

#include "tests/engine/libtorch/run_batch.h"

namespace tributary {

inline Batch FusionBatch(const std::vector<FusionParts>& pairs) {
  Batch batch;
  for (const FusionParts& pair : pairs) {
    batch.items.push_back(std::make_unique<WorkItem>(nullptr));
    batch.items.back()->prepared = pair;
  }
  return batch;
}

}  // namespace tributary
