#include "engine/prepare/text/pipeline_tokenizer.h"

#include <string>
#include <utility>

namespace tributary {

PipelineTokenizer::PipelineTokenizer(Parts parts)
    : raw_tokens_(std::move(parts.raw_tokens)),
      normaliser_(std::move(parts.normaliser)),
      normalised_tokens_(std::move(parts.normalised_tokens)),
      splitter_(std::move(parts.splitter)),
      model_(std::move(parts.model)) {}

void PipelineTokenizer::Encode(std::string_view text, size_t enough, std::vector<int32_t>& ids) const {
  static constexpr int32_t kText = AddedTokens::Part::kText;
  std::string normalised;
  Pieces pieces;
  AddedTokens::Reader raw(raw_tokens_, text);
  while (const auto part = raw.Next()) {
    if (ids.size() > enough) return;
    if (part->id != kText) {
      ids.push_back(part->id);
      continue;
    }
    auto segment = text.substr(part->begin, part->end - part->begin);
    if (normaliser_ != nullptr) {
      normalised.assign(segment);
      normaliser_->Apply(normalised);
      segment = normalised;
    }
    AddedTokens::Reader reader(normalised_tokens_, segment);
    while (const auto inner = reader.Next()) {
      if (ids.size() > enough) return;
      if (inner->id != kText) {
        ids.push_back(inner->id);
        continue;
      }
      const bool at_start = part->begin + inner->begin == 0;
      pieces.Start(segment.substr(inner->begin, inner->end - inner->begin), at_start);
      if (splitter_ != nullptr) splitter_->Split(pieces);
      model_->Encode(pieces, enough, ids);
    }
  }
}

}  // namespace tributary
