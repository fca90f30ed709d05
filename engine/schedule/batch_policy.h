// Which waiting items form the next batch of an encoder. Pure functions over a WaitingSet; the rules of the product in
// one place, tested by tables.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/schedule/cost_model.h"
#include "engine/schedule/waiting_set.h"

namespace tributary {

struct BatchLimits {
  uint64_t max_units = 0;
  size_t max_items = 0;
  Duration max_time{0};   // predicted; one item always fits
  bool drop_late = true;  // deadlines are weighed against predictions
  bool fifo = false;      // by arrival, whatever the lengths and deadlines
  bool padded = false;    // of fifo: each item counts as the batch's largest
};

// Whose turn it is to start a batch.
//   kMostUrgent       interactive before bulk, in order of urgency
//   kOldestBulk       bulk work that has waited longest, so that interactive load cannot starve it
//   kWithoutDeadline  interactive work without deadline, so that work with deadlines cannot starve it
// The last two fall back to kMostUrgent when there is no such work.
enum class Turn : uint8_t { kMostUrgent, kOldestBulk, kWithoutDeadline };

struct BatchSituation {
  TimePoint now;
  TimePoint start_at;  // when the lane is expected to start the batch; >= now
  Turn turn = Turn::kMostUrgent;
  bool shedding = false;  // deadlines were missed lately: more comes in than can be served
  double draw = 0;        // [0, 1), evenly spread over batches: whose length class is served while shedding
  bool drop_late = true;  // hopeless items are given up; else the most urgent one may run whatever is predicted
};

struct BatchChoice {
  std::vector<WaitingSet::Position> items;  // the seed first; empty: nothing to run
  std::vector<WaitingSet::Position> dead;   // met on the way, for WhyDead; too late: for this device's cost
  uint64_t units = 0;
};

// The latest start at which an item of this size and deadline is in time, alone.
TimePoint StartBy(TimePoint deadline, uint64_t units, const CostModel& cost, bool drop_late);

// Why an item must not be run any more: cancelled, expired, or (drop_late, trained model) too late even if it ran now
// and alone, on the device that `cost` is of. nullopt: it may run.
std::optional<DropReason> WhyDead(const WorkItem& item, TimePoint now, const CostModel& cost, bool drop_late);

// Whether all that waits would fill a batch to a limit, so that later items could not join it.
bool FillsBatch(const WaitingSet& waiting, const CostModel& cost, const BatchLimits& limits);

// With limits.fifo: interactive before bulk, each by arrival, up to the first that does not fit. Else
// seed: the most urgent item (of `situation.turn`). Then it fills up with the seed's priority first, and there from the
// seed's length class outwards, the most urgent of each class first, as far as the limits go and no member is predicted
// to miss its deadline because of the others.
// While shedding, a seed so urgent that its batch must stay small and inefficient is passed over for one that can stand
// an efficient batch: serving the almost late first would turn overload into collapse. Its length class is drawn by the
// classes' shares of the waiting work, so that none is given up more than another.
BatchChoice ChooseBatch(const WaitingSet& waiting, const CostModel& cost, const BatchLimits& limits,
                        const BatchSituation& situation);

}  // namespace tributary
