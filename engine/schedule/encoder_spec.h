// What the scheduler must know of an encoder: where it runs and how large its batches may be there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/api/types.h"

namespace tributary {

class BatchProgram;

// The encoder on one device. Replicas differ in what they take at once, and in what it costs.
struct ReplicaSpec {
  size_t device = 0;                      // as BatchExecutor::DeviceOf
  const BatchProgram* program = nullptr;  // goes with the batches; the scheduler does not look into it
  uint64_t max_units = 0;                 // of one batch: the program's limit cut by BatchOptions; > 0
  size_t max_items = 0;                   // likewise; > 0
};

// One encoder or fusion module.
struct EncoderSpec {
  Modality modality = Modality::kText;
  std::vector<ReplicaSpec> replicas;  // not empty; at most one a device
  bool fallback = false;              // of the modality's other encoder; its batches are scheduled like any
};

}  // namespace tributary
