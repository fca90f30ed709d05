// What the text preparer calls: text to token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tributary {

// Implemented by bert_tokenizer (the BERT family, fused) and pipeline_tokenizer (everything else). Thread-safety: const
// after construction; the state of a call lives on its stack.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the ids of `text` (well-formed UTF-8), without special tokens around them. May stop once `ids` has more
  // than `enough`.
  virtual void Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const = 0;
};

}  // namespace tributary
