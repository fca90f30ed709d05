// Gauges of the engine at one moment, pulled by the server when metrics are scraped or health is judged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/observer.h"
#include "engine/api/types.h"

namespace tributary {

struct QueueSnapshot {
  size_t depth_items = 0;  // waiting items: in the lock-free queue and in the scheduler's hands
  size_t capacity_items = 0;
  // Of the longest waiting item in the scheduler's hands; 0 when it has none. An item is in the lock-free queue only
  // for the moment until the scheduler's thread wakes, and has no age there.
  Duration oldest_age{0};
};

// `busy` and `idle` only grow. Together they are the age of the lane, but for a gap whose cause is not sure yet.
struct LaneSnapshot {
  std::string device;                            // "cpu", "cuda:0", "fake"
  std::array<Duration, kModalityCount> busy{};   // execution time of all batches, the running one included
  std::array<Duration, kIdleCauseCount> idle{};  // time between executions, the running gap included
  Duration running_for{0};                       // how long the current batch has been executing; 0 when idle
  Duration since_batch{0};                       // since a batch last ended here, or since the lane was made
  size_t batches_in_flight = 0;                  // handed over, not yet completed
  size_t consecutive_failed_batches = 0;         // as a whole, since one ran
};

struct EngineSnapshot {
  std::array<QueueSnapshot, kModalityCount> queues;  // index: Modality
  std::vector<LaneSnapshot> lanes;
  size_t requests_in_flight = 0;
  size_t items_in_flight = 0;
  size_t bytes_in_flight = 0;
  size_t items_capacity = 0;
  size_t bytes_capacity = 0;
  size_t prepare_depth_items = 0;  // waiting for a preparation worker
  bool draining = false;
};

}  // namespace tributary
