#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/worker_thread.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/text_head.h"
#include "engine/libtorch/exported/exported_program.h"
#include "engine/libtorch/exported/open_module.h"
#include "engine/libtorch/exported/padded_groups.h"
#include "engine/libtorch/exported/text_slot.h"
#include "engine/libtorch/exported/text_trial.h"
#include "engine/libtorch/weights/content_hash.h"

namespace tributary {
namespace {

constexpr uint64_t kCpuBatchTokens = 512;
constexpr uint64_t kCudaBatchTokens = 8192;
constexpr size_t kBatchItems = 256;
// One more call of a module, in tokens of padding. CPU: MiniLM as TorchScript, fp32, one core of a Zen 3: 15 ms a call
// and 0.55 ms a token (19 ms for 8 tokens, 33 for 32, 85 for 128). CUDA: not measured; some hundred launches.
constexpr uint64_t kCpuCallCost = 32;
constexpr uint64_t kCudaCallCost = 512;

class ExportedText final : public BatchProgram {
 public:
  ExportedText(ExportManifest manifest, std::shared_ptr<const ExportedModule> module,
               std::shared_ptr<const TextHead> head, ProgramDevice device, const PaddingRules& rules,
               uint64_t max_tokens, size_t max_items)
      : manifest_(std::move(manifest)),
        module_(std::move(module)),
        head_(std::move(head)),
        device_(device),
        max_batch_tokens_(max_tokens),
        max_batch_items_(max_items),
        rules_(rules) {}

  uint32_t OutputDimension() const override {
    return static_cast<uint32_t>(head_ ? head_->dimensions() : manifest_.output.dimension);
  }
  uint64_t MaxBatchUnits() const override { return max_batch_tokens_; }
  size_t MaxBatchItems() const override { return max_batch_items_; }
  size_t MaxInputBytes() const override {
    return TextSlot::MaxBytes(manifest_, std::max(max_batch_tokens_, rules_.max_length), max_batch_items_, rules_);
  }

  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override;
  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    return GuardTorch([&] {
      Encode(staged, input, output);
      return absl::OkStatus();
    });
  }

 private:
  absl::StatusOr<const TokenSequence*> Checked(const WorkItem& item) const;
  void Encode(const StagedBatch& staged, const std::byte* input, std::byte* output) const;

  const ExportManifest manifest_;
  const std::shared_ptr<const ExportedModule> module_;
  const std::shared_ptr<const TextHead> head_;  // of token states; else null
  const ProgramDevice device_;
  const uint64_t max_batch_tokens_;
  const size_t max_batch_items_;
  const PaddingRules rules_;
};

// Preparation has checked all of this; see encode/text_program.
absl::StatusOr<const TokenSequence*> ExportedText::Checked(const WorkItem& item) const {
  const auto* sequence = std::get_if<TokenSequence>(&item.prepared);
  if (sequence == nullptr) return absl::InternalError("a text batch holds an item without token ids");
  if (sequence->ids.empty() || sequence->ids.size() > rules_.max_length) {
    return absl::InternalError(
        absl::StrCat("a text of ", sequence->ids.size(), " tokens; the export takes 1 to ", rules_.max_length));
  }
  for (const int32_t id : sequence->ids) {
    if (id < 0 || id >= manifest_.text->vocabulary_size) {
      return absl::InternalError(absl::StrCat("token id ", id, " is not below ", manifest_.text->vocabulary_size));
    }
  }
  return sequence;
}

absl::StatusOr<StagedBatch> ExportedText::Stage(const Batch& batch, std::span<std::byte> input) const {
  std::vector<std::span<const int32_t>> ids(batch.items.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    auto sequence = Checked(*batch.items[i]);
    if (!sequence.ok()) return sequence.status();
    ids[i] = (*sequence)->ids;
  }
  std::vector<uint32_t> item_of_row(ids.size());
  std::iota(item_of_row.begin(), item_of_row.end(), 0u);
  std::stable_sort(item_of_row.begin(), item_of_row.end(),
                   [&](uint32_t a, uint32_t b) { return ids[a].size() > ids[b].size(); });

  StagedBatch staged;
  staged.batch_size = ids.size();
  staged.row_of_item.resize(ids.size());
  std::vector<std::span<const int32_t>> rows(ids.size());
  for (uint32_t row = 0; row < rows.size(); ++row) {
    rows[row] = ids[item_of_row[row]];
    staged.lengths.push_back(static_cast<uint32_t>(rows[row].size()));
    staged.row_of_item[item_of_row[row]] = row;
  }
  const TextSlot slot(manifest_, GroupByLength(staged.lengths, rules_), staged.lengths);
  if (ids.size() > max_batch_items_ || slot.bytes() > input.size()) {
    return absl::InternalError(absl::StrCat("a batch of ", ids.size(), " texts and ", slot.tokens(), " tokens needs ",
                                            slot.bytes(), " bytes of a slot of ", input.size(), "; at most ",
                                            max_batch_items_, " texts"));
  }
  slot.Fill(rows, input.data());
  staged.input_bytes = slot.bytes();
  staged.computed_units = slot.padded_tokens();
  return staged;
}

void ExportedText::Encode(const StagedBatch& staged, const std::byte* input, std::byte* output) const {
  const c10::Device place = TorchDevice(device_);
  const TextSlot slot(manifest_, GroupByLength(staged.lengths, rules_), staged.lengths);
  const auto tensor = [&](size_t offset, at::IntArrayRef shape, at::ScalarType type) {
    return at::from_blob(const_cast<std::byte*>(input) + offset, shape, at::TensorOptions().dtype(type).device(place));
  };
  const auto tokens = static_cast<int64_t>(slot.tokens());
  const at::Tensor rows = tensor(slot.Rows(), {tokens}, at::kInt);
  const int64_t width = manifest_.output.dimension;

  std::vector<at::Tensor> parts;  // of each group: token states packed, or vectors
  int64_t first_token = 0;
  for (size_t g = 0; g < slot.groups().size(); ++g) {
    const PaddedGroup& group = slot.groups()[g];
    const auto padded_rows = static_cast<int64_t>(group.padded_rows);
    const auto length = static_cast<int64_t>(group.length);
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < manifest_.inputs.size(); ++i) {
      inputs.push_back(tensor(slot.Input(g, i), {padded_rows, length}, TorchElementType(manifest_.inputs[i].type)));
    }
    const at::Tensor found = module_->Forward(inputs);
    if (!head_) {
      CheckOutput(manifest_, found, {padded_rows, width});
      parts.push_back(found.narrow(0, 0, static_cast<int64_t>(group.rows)));
      continue;
    }
    CheckOutput(manifest_, found, {padded_rows, length, width});
    int64_t group_tokens = 0;
    for (size_t row = 0; row < group.rows; ++row) group_tokens += staged.lengths[group.first_row + row];
    const at::Tensor flat = found.reshape({padded_rows * length, width});
    parts.push_back(at::index_select(flat, 0, rows.narrow(0, first_token, group_tokens)));
    first_token += group_tokens;
  }

  at::Tensor vectors = parts.size() == 1 ? parts[0] : at::cat(parts, 0);
  const auto batch = static_cast<int64_t>(staged.batch_size);
  if (head_) {
    const PackedSequences sequences{.lengths = staged.lengths,
                                    .cu_seqlens = tensor(slot.Starts(), {batch + 1}, at::kInt)};
    // Ids are for heads that models bring themselves.
    vectors = head_->Forward(vectors, /*ids=*/{}, tensor(slot.Positions(), {tokens}, at::kInt), sequences);
  }
  at::from_blob(output, {batch, static_cast<int64_t>(OutputDimension())},
                at::TensorOptions().dtype(at::kFloat).device(place))
      .copy_(vectors, /*non_blocking=*/true);
}

}  // namespace

ExportedProgramOptions ExportedOptionsFor(const EngineOptions& options, const std::string& dtype,
                                          const ProgramDevice& device) {
  ExportedProgramOptions exported{.dtype = dtype, .device = device, .op_libraries = options.op_libraries};
  exported.lanes = options.lanes.count;
  if (exported.lanes == 0) exported.lanes = device.kind == DeviceKind::kCuda ? 2 : UsableCpuCount();
  return exported;
}

absl::StatusOr<TextModelFolder> ReadExportedTextFolder(const std::string& folder) {
  auto manifest = ReadExportManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (!manifest->text) return absl::InvalidArgumentError(absl::StrCat(manifest->path, ": kind is image, not text"));
  auto text = ReadTextModelFolder(folder);
  if (!text.ok()) return text.status();
  if (manifest->output.holds == ExportedOutput::Holds::kVectors) {
    text->pooling.clear();
    text->normalise = manifest->text->normalise;
  } else if (!manifest->text->pooling.empty()) {
    text->pooling = manifest->text->pooling;
    text->normalise = manifest->text->normalise;
  }
  return text;
}

absl::StatusOr<LoadedTextProgram> LoadExportedText(const std::string& folder, const TextModelFolder& text,
                                                   const ExportedProgramOptions& options) {
  auto manifest = ReadExportManifest(folder);
  if (!manifest.ok()) return manifest.status();
  if (!manifest->text) return absl::InvalidArgumentError(absl::StrCat(manifest->path, ": kind is image, not text"));
  auto module = OpenModule(*manifest, options);
  if (!module.ok()) return module.status();
  auto revision = RevisionOf(*manifest);
  if (!revision.ok()) return revision.status();
  std::shared_ptr<const TextHead> head;
  if (manifest->output.holds == ExportedOutput::Holds::kTokenStates) {
    auto loaded = GuardTorch([&] { return TextHead::Load(text, manifest->output.dimension, options.device); });
    if (!loaded.ok()) return loaded.status();
    head = std::make_shared<TextHead>(*std::move(loaded));
    if (!head->revision().empty()) {
      ContentHash both;
      both.Add(*revision);
      both.Add(head->revision());
      revision = both.Hex();
    }
  }

  const bool cuda = options.device.kind == DeviceKind::kCuda;
  const auto most_rows = static_cast<size_t>(manifest->batch.max);
  const size_t max_items = std::min(options.max_batch_items == 0 ? kBatchItems : options.max_batch_items, most_rows);
  uint64_t max_tokens = options.max_batch_tokens;
  if (max_tokens == 0) max_tokens = cuda ? kCudaBatchTokens : kCpuBatchTokens;
  LoadedTextProgram loaded{
      .program = nullptr,
      .compute_type = manifest->dtype,
      .revision = *std::move(revision),
      .vocabulary_size = static_cast<size_t>(manifest->text->vocabulary_size),
      .max_tokens = static_cast<size_t>(manifest->text->length.max),
      .parameter_count = manifest->parameter_count + (head ? head->parameter_count() : 0),
      .parameter_bytes = manifest->parameter_bytes + (head ? head->parameter_count() * sizeof(float) : 0)};
  PaddingRules rules{.min_length = static_cast<uint64_t>(manifest->text->length.min),
                     .max_length = static_cast<uint64_t>(manifest->text->length.max),
                     .min_rows = static_cast<uint64_t>(manifest->batch.min),
                     .call_cost = kOneGroup};
  const auto program_by = [&](const PaddingRules& by) {
    return std::make_unique<ExportedText>(*manifest, *module, head, options.device, by, max_tokens, max_items);
  };
  const auto one_group = program_by(rules);
  const TextTrial trial(*manifest, rules, options.device, *one_group);
  if (auto status = trial.CheckShapes(); !status.ok()) return status;
  if (auto status = trial.CheckPadding(); !status.ok()) return status;
  if (auto status = trial.Warm(max_tokens); !status.ok()) return status;
  rules.call_cost = cuda ? kCudaCallCost : kCpuCallCost;
  loaded.program = program_by(rules);
  return loaded;
}

}  // namespace tributary
