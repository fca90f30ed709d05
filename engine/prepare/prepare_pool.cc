#include "engine/prepare/prepare_pool.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/queue/drop_item.h"

namespace tributary {
namespace {

// Classes of a queue, the lower one first: interactive, bulk.
constexpr size_t kClasses = 2;

absl::Status CheckText(const TextInput& input, const InputLimits& limits) {
  if (input.token_ids && input.token_ids->size() > limits.max_text_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("token_ids has ", input.token_ids->size(), " ids; the limit is ", limits.max_text_tokens));
  }
  if (!input.token_ids && input.text.size() > limits.max_text_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", input.text.size(), " bytes; the limit is ", limits.max_text_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckImage(const ImageInput& input, const InputLimits& limits) {
  const size_t bytes = input.raw_rgb ? input.raw_rgb->bytes.size() : input.encoded.size();
  if (bytes <= limits.max_image_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the image has ", bytes, " bytes; the limit is ", limits.max_image_bytes));
}

}  // namespace

PreparePool::PreparePool(size_t capacity, const InputLimits& limits, const Clock* clock, Observer* observer, Next next)
    : limits_(limits),
      clock_(clock),
      observer_(observer),
      next_(std::move(next)),
      texts_(capacity, kClasses),
      images_(capacity, kClasses) {}

void PreparePool::Start(size_t threads) {
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back(absl::StrCat("trib-token-", i), [this] { Loop(&texts_); });
    threads_.emplace_back(absl::StrCat("trib-decode-", i), [this] { Loop(&images_); });
  }
}

void PreparePool::Submit(PrepareEntry entry) {
  const size_t of_class = entry.item->priority == Priority::kBulk ? 1 : 0;
  BoundedQueue<PrepareEntry>& entries = std::holds_alternative<TextInput>(entry.input) ? texts_ : images_;
  if (entries.TryPush(std::move(entry), of_class)) return;
  // A refused entry stays as it was. NOLINTNEXTLINE(bugprone-use-after-move)
  DropItem(*entry.item, DropReason::kShutdown, observer_);
}

void PreparePool::Stop() {
  // Relaxed: Close() takes the queue's lock after it, each Pop() takes it before it answers.
  stopping_.store(true, std::memory_order_relaxed);
  texts_.Close();
  images_.Close();
  threads_.clear();
}

void PreparePool::Loop(BoundedQueue<PrepareEntry>* entries) {
  while (std::optional<PrepareEntry> entry = entries->Pop()) {
    preparing_.fetch_add(1, std::memory_order_relaxed);
    Prepare(*std::move(entry));
    preparing_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void PreparePool::Prepare(PrepareEntry entry) {
  WorkItem& item = *entry.item;
  const TimePoint now = clock_->Now();
  std::optional<DropReason> dead = DeadReason(item, now);
  if (stopping_.load(std::memory_order_relaxed)) dead = DropReason::kShutdown;
  if (dead) return DropItem(item, *dead, observer_);

  item.times.prepare_start = now;
  absl::Status status;
  try {
    status = Fill(entry, item);
  } catch (const std::exception& error) {
    status = absl::InternalError(absl::StrCat("preparing the input failed: ", error.what()));
  }
  if (!status.ok()) return item.Fail(std::move(status));
  item.times.queued = clock_->Now();
  next_(std::move(entry.item));
}

absl::Status PreparePool::Fill(const PrepareEntry& entry, WorkItem& item) const {
  if (const auto* text = std::get_if<TextInput>(&entry.input)) {
    if (absl::Status status = CheckText(*text, limits_); !status.ok()) return status;
    absl::StatusOr<TokenSequence> tokens = entry.preparers->text->Prepare(*text, entry.truncation);
    if (!tokens.ok()) return tokens.status();
    item.units = tokens->ids.size();
    item.prepared = *std::move(tokens);
    return absl::OkStatus();
  }
  const auto& image = std::get<ImageInput>(entry.input);
  if (absl::Status status = CheckImage(image, limits_); !status.ok()) return status;
  absl::StatusOr<PixelBlock> pixels = entry.preparers->image->Prepare(image);
  if (!pixels.ok()) return pixels.status();
  item.units = uint64_t{pixels->width} * pixels->height;
  item.prepared = *std::move(pixels);
  return absl::OkStatus();
}

}  // namespace tributary
