#include "engine/libtorch/encode/text_program.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/host_run.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/compute_type.h"
#include "engine/libtorch/encode/text_encoder.h"
#include "engine/libtorch/encode/text_families.h"
#include "engine/libtorch/encode/text_head.h"
#include "engine/libtorch/weights/content_hash.h"
#include "engine/libtorch/weights/safetensors.h"
#include "engine/schedule/length_buckets.h"

namespace tributary {
namespace {

constexpr uint64_t kCpuBatchTokens = 512;
constexpr uint64_t kCudaBatchTokens = 8192;
// A text longer than the budget, up to which its token total is run at load too. Beyond, a model of long contexts would
// be hours at it; a longer total costs its first batch some milliseconds more.
constexpr uint64_t kWarmTextTokens = 512;

// The parts of a slot.
struct SlotLayout {
  SlotLayout(size_t token_count, size_t batch_size) : tokens(token_count), batch(batch_size) {}
  size_t Positions() const { return tokens; }
  size_t Starts() const { return 2 * tokens; }
  size_t Bytes() const { return (2 * tokens + batch + 1) * sizeof(int32_t); }

  size_t tokens;
  size_t batch;
};

class TextProgram final : public BatchProgram {
 public:
  TextProgram(std::unique_ptr<TextEncoder> encoder, TextHead head, ProgramDevice device, uint64_t max_tokens,
              size_t max_items, bool pad)
      : encoder_(std::move(encoder)),
        head_(std::move(head)),
        info_(encoder_->info()),
        device_(device),
        max_batch_tokens_(max_tokens),
        max_batch_items_(max_items),
        pad_(pad) {}

  uint32_t OutputDimension() const override { return static_cast<uint32_t>(head_.dimensions()); }
  uint64_t MaxBatchUnits() const override { return max_batch_tokens_; }
  size_t MaxBatchItems() const override { return max_batch_items_; }
  size_t MaxInputBytes() const override {
    // One text of all positions fits even where the budget is smaller.
    const uint64_t most = std::max(max_batch_tokens_, static_cast<uint64_t>(info_.max_tokens));
    return SlotLayout(RoundedTokenTotal(most), max_batch_items_).Bytes();
  }

  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override;
  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    return GuardTorch([&] {
      Encode(staged, input, output);
      return absl::OkStatus();
    });
  }

  // Runs every token total once, up to the budget or kWarmTextTokens.
  absl::Status Warm() const;

 private:
  absl::StatusOr<const TokenSequence*> Checked(const WorkItem& item) const;
  // Rows that a batch is computed with.
  size_t Tokens(size_t useful, size_t batch_size, size_t longest) const {
    return RoundedTokenTotal(pad_ ? batch_size * longest : useful);
  }
  // Writes the rows `sequences` (ids, in row order: the longest first) into the slot.
  StagedBatch Fill(const std::vector<std::span<const int32_t>>& sequences, std::byte* input) const;
  void Encode(const StagedBatch& staged, const std::byte* input, std::byte* output) const;

  const std::unique_ptr<const TextEncoder> encoder_;
  const TextHead head_;
  const TextEncoderInfo info_;
  const ProgramDevice device_;
  const uint64_t max_batch_tokens_;
  const size_t max_batch_items_;
  const bool pad_;
};

// Preparation has checked all of this. It is checked again because an id out of range would be a fault of the whole
// device under CUDA, and it costs nothing beside the encoder.
absl::StatusOr<const TokenSequence*> TextProgram::Checked(const WorkItem& item) const {
  const auto* sequence = std::get_if<TokenSequence>(&item.prepared);
  if (sequence == nullptr) return absl::InternalError("a text batch holds an item without token ids");
  const size_t length = sequence->ids.size();
  if (length == 0 || length > static_cast<size_t>(info_.max_tokens)) {
    return absl::InternalError(
        absl::StrCat("a text of ", length, " tokens; the encoder takes 1 to ", info_.max_tokens));
  }
  for (const int32_t id : sequence->ids) {
    if (id < 0 || id >= info_.vocabulary_size) {
      return absl::InternalError(absl::StrCat("token id ", id, " is not below ", info_.vocabulary_size));
    }
  }
  return sequence;
}

absl::StatusOr<StagedBatch> TextProgram::Stage(const Batch& batch, std::span<std::byte> input) const {
  std::vector<std::span<const int32_t>> ids(batch.items.size());
  size_t useful = 0;
  size_t longest = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    auto sequence = Checked(*batch.items[i]);
    if (!sequence.ok()) return sequence.status();
    ids[i] = (*sequence)->ids;
    useful += ids[i].size();
    longest = std::max(longest, ids[i].size());
  }
  if (const size_t needed = SlotLayout(Tokens(useful, ids.size(), longest), ids.size()).Bytes();
      needed > input.size()) {
    return absl::InternalError(absl::StrCat("a batch of ", ids.size(), " texts and ", useful, " tokens needs ", needed,
                                            " bytes of a slot of ", input.size()));
  }

  std::vector<uint32_t> item_of_row(ids.size());
  std::iota(item_of_row.begin(), item_of_row.end(), 0u);
  std::stable_sort(item_of_row.begin(), item_of_row.end(),
                   [&](uint32_t a, uint32_t b) { return ids[a].size() > ids[b].size(); });
  std::vector<std::span<const int32_t>> rows;
  rows.reserve(ids.size());
  for (const uint32_t item : item_of_row) rows.push_back(ids[item]);

  StagedBatch staged = Fill(rows, input.data());
  staged.row_of_item.resize(ids.size());
  for (uint32_t row = 0; row < item_of_row.size(); ++row) staged.row_of_item[item_of_row[row]] = row;
  return staged;
}

StagedBatch TextProgram::Fill(const std::vector<std::span<const int32_t>>& sequences, std::byte* input) const {
  StagedBatch staged;
  staged.batch_size = sequences.size();
  size_t useful = 0;
  for (const auto& sequence : sequences) {
    staged.lengths.push_back(static_cast<uint32_t>(sequence.size()));
    useful += sequence.size();
  }
  const SlotLayout layout(Tokens(useful, sequences.size(), sequences.front().size()), sequences.size());
  staged.computed_units = layout.tokens;
  staged.input_bytes = layout.Bytes();

  auto* const ids = reinterpret_cast<int32_t*>(input);
  int32_t* const positions = ids + layout.Positions();
  int32_t* const starts = ids + layout.Starts();
  size_t row = 0;
  for (size_t b = 0; b < sequences.size(); ++b) {
    starts[b] = static_cast<int32_t>(row);
    std::copy(sequences[b].begin(), sequences[b].end(), ids + row);
    std::iota(positions + row, positions + row + sequences[b].size(), 0);
    row += sequences[b].size();
  }
  starts[sequences.size()] = static_cast<int32_t>(row);
  // Rows past the last text are computed too: any valid id will do.
  std::fill(ids + row, ids + layout.tokens, 0);
  std::fill(positions + row, positions + layout.tokens, 0);
  return staged;
}

void TextProgram::Encode(const StagedBatch& staged, const std::byte* input, std::byte* output) const {
  const c10::Device place = TorchDevice(device_);
  const SlotLayout layout(staged.computed_units, staged.batch_size);
  const auto slot_tensor = [&](size_t offset, size_t count) {
    auto* const data = const_cast<int32_t*>(reinterpret_cast<const int32_t*>(input)) + offset;
    return at::from_blob(data, {static_cast<int64_t>(count)}, at::TensorOptions().dtype(at::kInt).device(place));
  };
  const PackedSequences sequences{.lengths = staged.lengths,
                                  .cu_seqlens = slot_tensor(layout.Starts(), layout.batch + 1)};
  const at::Tensor positions = slot_tensor(layout.Positions(), layout.tokens);
  const at::Tensor ids = slot_tensor(0, layout.tokens);
  const at::Tensor hidden = encoder_->Forward(ids, positions, sequences);
  at::from_blob(output, {static_cast<int64_t>(layout.batch), head_.dimensions()},
                at::TensorOptions().dtype(at::kFloat).device(place))
      .copy_(head_.Forward(hidden, ids, positions, sequences), /*non_blocking=*/true);
}

absl::Status TextProgram::Warm() const {
  const auto longest = static_cast<uint64_t>(info_.max_tokens);
  const uint64_t most = std::max(max_batch_tokens_, std::min(longest, kWarmTextTokens));
  const std::vector<int32_t> ids(std::min(longest, RoundedTokenTotal(most)), 0);
  for (uint64_t total = RoundedTokenTotal(1); total <= RoundedTokenTotal(most); total = RoundedTokenTotal(total + 1)) {
    std::vector<std::span<const int32_t>> sequences;
    for (uint64_t left = total; left > 0; left -= sequences.back().size()) {
      sequences.emplace_back(ids.data(), std::min<uint64_t>(left, ids.size()));
    }
    const size_t tokens = Tokens(total, sequences.size(), sequences.front().size());
    std::vector<std::byte> slot(SlotLayout(tokens, sequences.size()).Bytes());
    const StagedBatch staged = Fill(sequences, slot.data());
    if (auto rows = RunOnHost(*this, device_, staged, slot); !rows.ok()) return rows.status();
  }
  return absl::OkStatus();
}

// A single number of the model's; nullopt where it has no such tensor.
absl::StatusOr<std::optional<double>> ReadScalar(const SafetensorsWeights& weights, std::string_view name) {
  auto prefix = weights.PrefixOf(name);
  if (absl::IsNotFound(prefix.status())) return std::nullopt;
  if (!prefix.ok()) return prefix.status();
  auto tensor = weights.Get(*prefix + std::string(name));
  if (!tensor.ok()) return tensor.status();
  if (tensor->numel() != 1 || !tensor->is_floating_point()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", std::string(name), "' must be one floating number"));
  }
  return tensor->to(at::kDouble).item<double>();
}

absl::Status ReadLogits(const SafetensorsWeights& weights, LoadedTextProgram& loaded) {
  auto scale = ReadScalar(weights, "logit_scale");
  if (!scale.ok()) return scale.status();
  auto bias = ReadScalar(weights, "logit_bias");
  if (!bias.ok()) return bias.status();
  if (*scale) loaded.logit_scale = std::exp(**scale);
  loaded.logit_bias = bias->value_or(0);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedTextProgram> LoadTextProgram(const TextModelFolder& folder, const TextProgramOptions& options) {
  auto type = ResolveComputeType(options.dtype, options.device);
  if (!type.ok()) return type.status();
  auto family = TextFamilyOf(folder.transformer_folder);
  if (!family.ok()) return family.status();
  if (*type == ComputeType::kFp16 && !(*family)->fp16 && options.dtype == "auto") type = ComputeType::kBf16;
  auto weights = SafetensorsWeights::OpenFolder(folder.transformer_folder);
  if (!weights.ok()) return weights.status();
  auto encoder =
      GuardTorch([&] { return LoadTextEncoder(folder.transformer_folder, *weights, *type, options.device); });
  if (!encoder.ok()) return encoder.status();
  const TextEncoderInfo info = (*encoder)->info();
  auto head = GuardTorch([&]() -> absl::StatusOr<TextHead> {
    if (!folder.has_pooling && (*encoder)->own_head()) return *(*encoder)->own_head();
    return TextHead::Load(folder, info.hidden_size, options.device);
  });
  if (!head.ok()) return head.status();

  uint64_t max_tokens = options.max_batch_tokens;
  if (max_tokens == 0) max_tokens = options.device.kind == DeviceKind::kCuda ? kCudaBatchTokens : kCpuBatchTokens;
  LoadedTextProgram loaded{.program = nullptr,
                           .compute_type = *type,
                           .revision = weights->Revision(),
                           .vocabulary_size = static_cast<size_t>(info.vocabulary_size),
                           .max_tokens = static_cast<size_t>(info.max_tokens),
                           .parameter_count = info.parameter_count + head->parameter_count(),
                           .parameter_bytes = info.parameter_bytes + head->parameter_count() * sizeof(float)};
  if (!head->revision().empty()) {
    ContentHash both;
    both.Add(loaded.revision);
    both.Add(head->revision());
    loaded.revision = both.Hex();
  }
  if ((*encoder)->own_head()) {
    auto status = GuardTorch([&] { return ReadLogits(*weights, loaded); });
    if (!status.ok()) return status;
  }
  auto program = std::make_unique<TextProgram>(*std::move(encoder), *std::move(head), options.device, max_tokens,
                                               options.max_batch_items, options.pad);
  if (auto status = options.warm ? program->Warm() : absl::OkStatus(); !status.ok()) return status;
  loaded.program = std::move(program);
  return loaded;
}

}  // namespace tributary
