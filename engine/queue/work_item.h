// The unit that flows from preparation through queue, scheduler and lane: one modality of one input of one request.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/cancel_token.h"
#include "engine/api/observer.h"
#include "engine/api/types.h"

namespace tributary {

// Index of one encoder (or fusion module) of one model within the engine; every encoder has its own batches.
using EncoderIndex = uint16_t;

// Tokeniser output. ids int32 [T], special tokens included, T >= 1.
struct TokenSequence {
  std::vector<int32_t> ids;
  bool truncated = false;
};

// Decoder output, already brought to the encoder's input size. rgb u8 [height, width, 3].
struct PixelBlock {
  std::vector<uint8_t> rgb;
  uint32_t width = 0;
  uint32_t height = 0;
};

// The parts of a pair, normalised, f32 [D] each; an absent part is empty (presence mask 0). Index: 0 text, 1 image.
struct FusionParts {
  std::array<std::vector<float>, 2> parts;
};

using Prepared = std::variant<std::monostate, TokenSequence, PixelBlock, FusionParts>;

// Moments of an item's way; the epoch value: not reached.
struct ItemTimes {
  TimePoint admitted;
  TimePoint prepare_start;
  TimePoint queued;
  TimePoint batched;
  TimePoint compute_start;
  TimePoint compute_end;
};

class WorkItem;

// Where an item goes when it is done, whatever happened. Implemented by engine/pipeline (the request's state).
class ItemSink {
 public:
  virtual ~ItemSink() = default;
  // Exactly once per item. Runs on the thread that completed it (preparation, scheduler, lane): must not block. What it
  // throws is lost: scheduler and lane go on.
  // `embedding` f32 [D], empty unless status is OK.
  virtual void OnItemDone(const WorkItem& item, absl::Status status, std::vector<float> embedding) = 0;
};

// Invariants: Complete or Fail takes effect once; an item destroyed without either completes as INTERNAL, so that no
//   exception path can lose a request.
// Ownership: moves along the flow by unique_ptr; whoever holds it must complete it.
// Thread-safety: one holder at a time; none needed.
class WorkItem {
 public:
  explicit WorkItem(std::shared_ptr<ItemSink> sink) : sink_(std::move(sink)) {}
  ~WorkItem() {
    if (!sink_) return;
    try {
      Fail(absl::InternalError("an item was given up without an answer"));
    } catch (...) {
      // As of any sink: lost. Nothing may leave a destructor.
    }
  }
  WorkItem(const WorkItem&) = delete;
  WorkItem& operator=(const WorkItem&) = delete;

  void Complete(std::vector<float> embedding) {
    if (auto sink = std::move(sink_)) sink->OnItemDone(*this, absl::OkStatus(), std::move(embedding));
  }
  void Fail(absl::Status status) {
    if (auto sink = std::move(sink_)) sink->OnItemDone(*this, std::move(status), {});
  }

  bool cancelled() const { return cancel && cancel->cancelled(); }
  bool expired(TimePoint now) const { return now >= deadline; }

  Modality modality = Modality::kText;
  EncoderIndex encoder = 0;
  Priority priority = Priority::kInteractive;
  bool normalise = true;     // L2-normalise the output row
  uint32_t dimensions = 0;   // numbers kept of the output row, its first ones, before it is normalised; 0: all
  uint32_t input_index = 0;  // which input of its request
  bool bad_vector = false;   // set by the lane as it fails the item: its vector was not finite, or of length zero
  bool retried = false;      // runs on the model's fallback, as its vector was bad
  uint64_t units = 0;        // cost: tokens (text), pixels (image), 1 (fusion)
  TimePoint deadline = kNoDeadline;
  std::shared_ptr<CancelToken> cancel;  // may be null
  Prepared prepared;
  ItemTimes times;

 private:
  std::shared_ptr<ItemSink> sink_;
};

using WorkItemPtr = std::unique_ptr<WorkItem>;

}  // namespace tributary
