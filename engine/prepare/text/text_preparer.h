// The text side of preparation: raw text or ready ids in, token sequence out. Called by the preparation pool.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/prepare/preparer.h"
#include "engine/prepare/text/tokenizer_files.h"

namespace tributary {

// A tokeniser with its limits. Ready ids pass as they are, or not at all: they are never cut. Where the model's texts
// are padded, both are. A prompt is part of its text: its tokens count, and are the first ones a truncation at the
// start cuts. Thread-safety: const after construction, no locks. Errors: INVALID_ARGUMENT: not UTF-8 (with the offset);
// over max_tokens with Truncation::kNone; ready ids none, over
//   max_tokens, or outside the vocabulary; an added token that the model has no embedding for.
class TokenizingPreparer : public TextPreparer {
 public:
  explicit TokenizingPreparer(TokenizerFiles files);

  absl::StatusOr<TokenSequence> Prepare(const TextInput& input, Truncation truncation) const override;

  size_t max_tokens() const { return max_tokens_; }            // special tokens included
  size_t vocabulary_size() const { return vocabulary_size_; }  // every id is below it

 private:
  absl::StatusOr<TokenSequence> CheckIds(std::span<const int32_t> ids) const;
  absl::StatusOr<TokenSequence> Tokenise(const TextInput& input, Truncation truncation) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  SpecialIds special_;
  size_t max_tokens_;
  size_t vocabulary_size_;
  bool has_rowless_ids_;
  size_t padded_length_;
  int32_t pad_id_;
};

// The tokeniser of a hub folder. max_tokens lowers the folder's own limit; 0: the folder's.
// Errors: those of ReadTokenizerFiles; INVALID_ARGUMENT max_tokens leaves no room for text.
absl::StatusOr<std::unique_ptr<TokenizingPreparer>> LoadTextPreparer(const std::string& hub_folder, size_t max_tokens);

}  // namespace tributary
