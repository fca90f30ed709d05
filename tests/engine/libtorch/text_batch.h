// A batch of texts, as the scheduler forms it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/engine/libtorch/run_batch.h"

namespace tributary {

using TokenIds = std::vector<int32_t>;

inline Batch TextBatch(const std::vector<TokenIds>& texts) {
  Batch batch;
  for (const TokenIds& ids : texts) {
    auto item = std::make_unique<WorkItem>(nullptr);
    item->units = ids.size();
    item->prepared = TokenSequence{.ids = ids};
    batch.useful_units += ids.size();
    batch.items.push_back(std::move(item));
  }
  return batch;
}

}  // namespace tributary
