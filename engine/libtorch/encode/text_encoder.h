// What every text encoder family is to the program that runs it: rows of tokens in, one hidden state a row out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "engine/libtorch/encode/attention.h"
#include "engine/libtorch/encode/text_head.h"

namespace tributary {

struct TextEncoderInfo {
  int64_t hidden_size = 0;
  int64_t vocabulary_size = 0;  // every id is below it
  int64_t max_tokens = 0;       // of one text
  uint64_t parameter_count = 0;
  uint64_t parameter_bytes = 0;  // in the types they are run in
};

// Made by encode/text_families from a model folder; run by encode/text_program, which pools the hidden states.
// Nothing here is about one vector a text: what becomes of the rows (one vector, several, all of them) is decided after
// it, from the same PackedSequences; and rows that are not token ids (frames, [T, F]) need only another type of `ids`.
// Thread-safety: const methods from any thread. Errors of Forward: LibTorch's exceptions; the program guards.
class TextEncoder {
 public:
  explicit TextEncoder(const TextEncoderInfo& info, std::optional<TextHead> own_head = std::nullopt)
      : info_(info), own_head_(std::move(own_head)) {}
  virtual ~TextEncoder() = default;
  TextEncoder(const TextEncoder&) = delete;
  TextEncoder& operator=(const TextEncoder&) = delete;

  const TextEncoderInfo& info() const { return info_; }
  // Of models that say themselves what becomes of the rows: CLIP's and SigLIP's text towers. Else the folder's modules
  // do.
  const std::optional<TextHead>& own_head() const { return own_head_; }

  // ids, positions int32 [T], positions from 0 in each sequence; result [T, hidden_size], floating. Rows of no sequence
  // are computed and mean nothing; no other row depends on them.
  virtual at::Tensor Forward(const at::Tensor& ids, const at::Tensor& positions,
                             const PackedSequences& sequences) const = 0;

 private:
  const TextEncoderInfo info_;
  const std::optional<TextHead> own_head_;
};

}  // namespace tributary
