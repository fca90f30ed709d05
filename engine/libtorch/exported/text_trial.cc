#include "engine/libtorch/exported/text_trial.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/host_run.h"
#include "engine/libtorch/exported/export_checks.h"
#include "engine/libtorch/exported/text_slot.h"

namespace tributary {
namespace {

// Texts up to this length are run at load, as in encode/text_program.
constexpr uint64_t kWarmTextTokens = 512;
// A module that takes other sizes or types than its manifest says may read past its input: here it finds zeros.
constexpr size_t kTrialBytes = size_t{4} << 20;
// Period of the ids of trial texts.
constexpr size_t kTrialIds = 61;

}  // namespace

absl::StatusOr<std::vector<float>> TextTrial::Run(const std::vector<Ids>& texts) const {
  StagedBatch staged;
  staged.batch_size = texts.size();
  std::vector<std::span<const int32_t>> rows(texts.begin(), texts.end());
  for (const Ids& text : texts) staged.lengths.push_back(static_cast<uint32_t>(text.size()));
  const TextSlot slot(manifest_, GroupByLength(staged.lengths, rules_), staged.lengths);
  std::vector<std::byte> memory(slot.bytes() + kTrialBytes);
  slot.Fill(rows, memory.data());
  staged.input_bytes = memory.size();
  staged.computed_units = slot.padded_tokens();
  auto vectors = RunOnHost(program_, device_, staged, memory);
  const std::string run = absl::StrCat("a run of ", texts.size(), " texts of up to ", texts[0].size(),
                                       " tokens, padded to ", slot.groups()[0].length);
  if (!vectors.ok()) return WrongExport(manifest_, run, vectors.status());
  if (auto status = CheckFinite(manifest_, run, *vectors); !status.ok()) return status;
  return vectors;
}

TextTrial::Ids TextTrial::Text(size_t length) const {
  // Any ids but that of padding, no two neighbours the same.
  Ids ids(length);
  const int64_t vocabulary = manifest_.text->vocabulary_size;
  for (size_t i = 0; i < length; ++i) {
    ids[i] = static_cast<int32_t>((manifest_.text->pad_id + 1 + static_cast<int64_t>(i % kTrialIds)) % vocabulary);
  }
  return ids;
}

absl::Status TextTrial::CheckShapes() const {
  const size_t longest = rules_.max_length;
  const Ids zeros(std::min<size_t>(rules_.max_length, 8), 0);
  const std::vector<std::vector<Ids>> runs = {
      {zeros},
      {Ids(longest, 0)},
      std::vector<Ids>(program_.MaxBatchItems(), Text(1)),
      {Text(longest), Text((longest + 1) / 2)},
  };
  for (const auto& texts : runs) {
    if (texts.size() > program_.MaxBatchItems()) continue;
    if (auto vectors = Run(texts); !vectors.ok()) return vectors.status();
  }
  return absl::OkStatus();
}

absl::Status TextTrial::CheckPadding() const {
  const size_t length = PaddedLength(1, rules_);
  const size_t longer = std::min<uint64_t>(4 * length, rules_.max_length);
  if (longer == length || program_.MaxBatchItems() < 2) return absl::OkStatus();
  auto alone = Run({Text(length)});
  if (!alone.ok()) return alone.status();
  auto beside = Run({Text(longer), Text(length)});
  if (!beside.ok()) return beside.status();
  const std::string what = absl::StrCat("a text of ", length, " tokens alone and beside one of ", longer);
  return CheckSameVector(manifest_, what, *alone, std::span<const float>(*beside).last(program_.OutputDimension()));
}

absl::Status TextTrial::Warm(uint64_t max_batch_tokens) const {
  for (const uint64_t length : PaddedLengths(rules_)) {
    if (length > kWarmTextTokens) break;
    if (auto vectors = Run({Text(length)}); !vectors.ok()) return vectors.status();
    const uint64_t most = std::clamp<uint64_t>(max_batch_tokens / length, 1, program_.MaxBatchItems());
    if (most == 1 || !std::has_single_bit(length)) continue;
    if (auto vectors = Run(std::vector<Ids>(most, Text(length))); !vectors.ok()) return vectors.status();
  }
  return absl::OkStatus();
}

}  // namespace tributary
