// Waits for the parts of one pair and hands them on to fusion. Between the lanes (parts out) and the fusion queue.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/queue/work_item.h"

namespace tributary {

// Parts arrive on whatever threads complete them; the one that brings the last part goes on with the pair.
// Called by engine/pipeline/request_state.
// Invariants: Arrive once per expected part; it answers true exactly once.
// Thread-safety: Arrive from any thread; the rest only after the Arrive() that answered true, on that thread.
// Shapes: parts f32 [D]; an absent part is empty.
class FusionJoin {
 public:
  static constexpr size_t kText = 0;
  static constexpr size_t kImage = 1;

  FusionJoin(bool has_text, bool has_image) : waiting_((has_text ? 1 : 0) + (has_image ? 1 : 0)) {}

  // True: this was the last part.
  bool Arrive(size_t part, absl::Status status, std::vector<float> vector);

  // OK, or why the pair has failed: the first failed part's status, text before image.
  absl::Status status() const;
  // A part as fusion takes it: a copy of length 1, whatever the request's own vectors are scaled to; empty where
  // absent. Errors: INTERNAL its length is zero.
  absl::StatusOr<std::vector<float>> NormalisedPart(size_t part) const;
  std::vector<float> TakePart(size_t part) { return std::move(parts_[part].vector); }

 private:
  struct Part {
    absl::Status status;
    std::vector<float> vector;
  };

  std::array<Part, 2> parts_;
  // acq_rel: what each thread wrote to its part before it counted down is visible to the one that reaches zero.
  std::atomic<int> waiting_;
};

}  // namespace tributary
