// A batch: items of one encoder that run together. Formed by the scheduler, run by a lane.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/queue/work_item.h"

namespace tributary {

class BatchProgram;

struct Batch {
  uint64_t sequence = 0;  // in order of forming, from 1
  Modality modality = Modality::kText;
  EncoderIndex encoder = 0;
  const BatchProgram* program = nullptr;  // the encoder on the device of the lane it goes to
  std::vector<WorkItemPtr> items;         // never empty; most urgent first
  uint64_t useful_units = 0;              // sum of the items' units
  Duration predicted_time{0};             // by the cost model
  TimePoint formed_at;
};

// What a lane reports when a batch has left it; its items have been completed before.
struct BatchOutcome {
  size_t lane = 0;
  uint64_t sequence = 0;
  Modality modality = Modality::kText;
  EncoderIndex encoder = 0;
  size_t items = 0;
  uint64_t useful_units = 0;
  uint64_t computed_units = 0;
  Duration predicted_time{0};  // copied from the batch, to correct its charge
  Duration device_time{0};     // execution start -> end; 0 when it never ran
  absl::Status status;
};

// What is known of the outcome from the batch alone, while it still has its items.
inline BatchOutcome OutcomeOf(const Batch& batch, size_t lane) {
  BatchOutcome outcome;
  outcome.lane = lane;
  outcome.sequence = batch.sequence;
  outcome.modality = batch.modality;
  outcome.encoder = batch.encoder;
  outcome.items = batch.items.size();
  outcome.useful_units = batch.useful_units;
  outcome.predicted_time = batch.predicted_time;
  return outcome;
}

}  // namespace tributary
