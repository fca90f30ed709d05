// What a tokeniser does with a word: its token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/prepare/text/split/pieces.h"

namespace tributary {

// Called by pipeline_tokenizer. Thread-safety: const after construction; the state of a call lives on its stack.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of all pieces. May stop once `ids` has more than `enough`.
  virtual void Encode(const Pieces& pieces, size_t enough, std::vector<int32_t>& ids) const = 0;
};

}  // namespace tributary
