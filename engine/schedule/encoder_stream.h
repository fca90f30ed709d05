// One encoder's stream of batches: what waits for it, what its batches cost, whose turn it is. Used by the scheduler.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/api/options.h"
#include "engine/schedule/batch.h"
#include "engine/schedule/batch_policy.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/length_buckets.h"
#include "engine/schedule/waiting_set.h"

namespace tributary {

// Invariants: items leave in a batch or through `on_drop`; at least every bulk_every-th batch starts with bulk work
//   while some waits, and likewise with interactive work that has no deadline.
// Thread-safety: none; scheduler thread. `on_drop` may run client code (the item's sink) and must not come back here.
class EncoderStream {
 public:
  using OnDrop = std::function<void(WorkItemPtr, DropReason)>;

  // `bulk_every`: >= 3, or work with deadlines would start no batch while the other kinds wait.
  EncoderStream(Modality modality, BatchLimits limits, Duration max_wait, size_t bulk_every, OnDrop on_drop)
      : cost_(modality == Modality::kText ? &RoundedTokenTotal : &CostModel::NoPadding),
        modality_(modality),
        limits_(limits),
        max_wait_(max_wait),
        bulk_every_(bulk_every),
        on_drop_(std::move(on_drop)) {}

  void Add(WorkItemPtr item, uint64_t arrival, TimePoint now);
  // Gives up what has become hopeless or expired by `now`. True: something was.
  bool DropDead(TimePoint now);
  // Gives up everything.
  void DropAll(DropReason reason);
  // Forms the next batch for a lane that will start it at `start_at`. No items: all that waited was dead.
  Batch Form(TimePoint now, TimePoint start_at);
  void Observe(const BatchOutcome& outcome, TimePoint now);

  // Whether waiting longer would change nothing: a batch is full.
  bool Full() const { return FillsBatch(waiting_, cost_, limits_); }
  // Until when the max_wait policy holds a batch back that is not full.
  TimePoint WaitsUntil() const;
  // When DropDead next has something to do; kNoDeadline: never.
  TimePoint NextDrop() const { return waiting_.EarliestStartBy(); }

  Modality modality() const { return modality_; }
  const WaitingSet& waiting() const { return waiting_; }
  const CostModel& cost() const { return cost_; }

 private:
  bool DropsLate(TimePoint now) const;
  Turn NextTurn() const;
  void CountTurns(const WorkItem& seed);
  void Drop(const WaitingSet::Position& position, DropReason reason, TimePoint now);

  CostModel cost_;
  const Modality modality_;
  const BatchLimits limits_;
  const Duration max_wait_;
  const size_t bulk_every_;
  const OnDrop on_drop_;
  WaitingSet waiting_;
  size_t batches_since_bulk_ = 0;         // batches that started otherwise while bulk work waited
  size_t batches_since_no_deadline_ = 0;  // likewise for interactive work without deadline
  double draw_ = 0;                       // BatchSituation::draw
  TimePoint shedding_until_;              // deadlines were missed not long before
  TimePoint fresh_until_;                 // a batch has run not long before
};

}  // namespace tributary
