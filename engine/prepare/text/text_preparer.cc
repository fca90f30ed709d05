#include "engine/prepare/text/text_preparer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/prepare/text/unicode/utf8.h"

namespace tributary {

TokenizingPreparer::TokenizingPreparer(TokenizerFiles files)
    : tokenizer_(std::move(files.tokenizer)),
      special_(std::move(files.special)),
      max_tokens_(files.max_tokens),
      vocabulary_size_(files.vocabulary_size),
      has_rowless_ids_(files.has_rowless_ids),
      padded_length_(files.padded_length),
      pad_id_(files.pad_id) {}

absl::StatusOr<TokenSequence> TokenizingPreparer::CheckIds(std::span<const int32_t> ids) const {
  if (ids.empty()) return absl::InvalidArgumentError("token_ids is empty: at least one id is needed");
  if (ids.size() > max_tokens_) {
    return absl::InvalidArgumentError(absl::StrCat("token_ids has ", ids.size(), " ids, the limit is ", max_tokens_,
                                                   " (ready ids are not truncated)"));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= vocabulary_size_) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids[", i, "] is ", ids[i], ", must be in [0, ", vocabulary_size_, ")"));
    }
  }
  return TokenSequence{{ids.begin(), ids.end()}, false};
}

absl::StatusOr<TokenSequence> TokenizingPreparer::Prepare(const TextInput& input, Truncation truncation) const {
  auto sequence = input.token_ids ? CheckIds(*input.token_ids) : Tokenise(input, truncation);
  if (sequence.ok() && sequence->ids.size() < padded_length_) sequence->ids.resize(padded_length_, pad_id_);
  return sequence;
}

absl::StatusOr<TokenSequence> TokenizingPreparer::Tokenise(const TextInput& input, Truncation truncation) const {
  if (const size_t invalid = utf8::FindInvalid(input.text); invalid != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("text is not valid UTF-8 at byte ", invalid));
  }
  // One string, as the reference joins them: pieces of words may reach over the seam.
  std::string joined;
  if (!input.prompt.empty()) joined.append(input.prompt).append(input.text);
  const std::string_view text = input.prompt.empty() ? input.text : std::string_view(joined);
  TokenSequence sequence;
  auto& ids = sequence.ids;
  ids.reserve(special_.prefix.size() + special_.suffix.size() + std::min(text.size() / 3, max_tokens_) + 8);
  ids = special_.prefix;
  // Cutting at the end needs no more than one id too many; the other two need them all.
  const size_t room = max_tokens_ - special_.suffix.size();
  tokenizer_->Encode(text, truncation == Truncation::kEnd ? room : SIZE_MAX, ids);
  if (ids.size() > room) {
    if (truncation == Truncation::kNone) {
      return absl::InvalidArgumentError(absl::StrCat("text has ", ids.size() + special_.suffix.size(),
                                                     " tokens, the limit is ", max_tokens_, " (truncation is none)"));
    }
    sequence.truncated = true;
    if (truncation == Truncation::kStart) {
      const auto first = ids.begin() + static_cast<ptrdiff_t>(special_.prefix.size());
      ids.erase(first, first + static_cast<ptrdiff_t>(ids.size() - room));
    }
    ids.resize(room);
    ids.shrink_to_fit();
  }
  ids.insert(ids.end(), special_.suffix.begin(), special_.suffix.end());
  if (has_rowless_ids_) {
    const auto found =
        std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return static_cast<size_t>(id) >= vocabulary_size_; });
    if (found != ids.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("text holds a token (id ", *found, ") that the model has no embedding for"));
    }
  }
  return sequence;
}

absl::StatusOr<std::unique_ptr<TokenizingPreparer>> LoadTextPreparer(const std::string& hub_folder, size_t max_tokens) {
  auto files = ReadTokenizerFiles(hub_folder);
  if (!files.ok()) return files.status();
  if (max_tokens > 0) {
    const size_t special = files->special.prefix.size() + files->special.suffix.size();
    if (max_tokens <= special) {
      return absl::InvalidArgumentError(
          absl::StrCat("max_tokens is ", max_tokens, ", must be more than ", special, " special tokens"));
    }
    files->max_tokens = std::min(files->max_tokens, max_tokens);
  }
  return std::make_unique<TokenizingPreparer>(*std::move(files));
}

}  // namespace tributary
