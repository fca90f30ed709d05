// One encoder's stream of batches: what waits for it, what its batches cost, whose turn it is. Used by the scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/api/options.h"
#include "engine/schedule/batch.h"
#include "engine/schedule/batch_policy.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/encoder_spec.h"
#include "engine/schedule/waiting_set.h"

namespace tributary {

// Its replicas share what waits: an item is bound to a device only when its batch is formed. Each has limits and a cost
// model of its own, for a batch may take a hundred times longer on one device than on another.
// Invariants: items leave in a batch or through `on_drop`; at least every bulk_every-th batch starts with bulk work
//   while some waits, and likewise with interactive work that has no deadline.
// Thread-safety: none; scheduler thread. `on_drop` may run client code (the item's sink) and must not come back here.
class EncoderStream {
 public:
  using OnDrop = std::function<void(WorkItemPtr, DropReason)>;

  // `options.bulk_every`: >= 3, or work with deadlines would start no batch while the other kinds wait.
  EncoderStream(const EncoderSpec& spec, const ScheduleOptions& options, OnDrop on_drop);

  void Add(WorkItemPtr item, uint64_t arrival, TimePoint now);
  // Gives up what has expired by `now` or become hopeless on every device. True: something was.
  bool DropDead(TimePoint now);
  // Gives up everything.
  void DropAll(DropReason reason);
  // Forms the next batch for a lane of `device` that will start it at `start_at`. No items: all that waited was dead,
  // or would be late on this device and may yet be in time on another one.
  Batch Form(size_t device, TimePoint now, TimePoint start_at);
  // A batch came back from a lane of `device`.
  void Observe(size_t device, const BatchOutcome& outcome, TimePoint now);

  // Whether it runs on this device. The methods below that name a device ask only for such.
  bool On(size_t device) const { return device < replicas_.size() && replicas_[device].has_value(); }
  // Whether waiting longer would change nothing: a batch is full.
  bool Full(size_t device) const;
  // What running all that waits, or a full batch of it, would take there; 0: nothing is known.
  Duration Expected(size_t device) const;
  // Until when no batch should go there: the last ones all failed, and another device's did not.
  TimePoint AvoidsUntil(size_t device) const;
  // Until when the max_wait policy holds a batch back that is not full.
  TimePoint WaitsUntil() const;
  // When DropDead next has something to do; kNoDeadline: never.
  TimePoint NextDrop() const { return waiting_.EarliestStartBy(); }

  Modality modality() const { return modality_; }
  const WaitingSet& waiting() const { return waiting_; }

 private:
  struct Replica {
    const BatchProgram* program = nullptr;
    BatchLimits limits;
    CostModel cost;
    TimePoint fresh_until;       // a batch has run not long before
    size_t failed_in_a_row = 0;  // batches
    TimePoint retry_at;          // of failed_in_a_row > 0
    bool DropsLate(TimePoint now) const;
  };

  TimePoint StartByOnAny(const WorkItem& item, TimePoint now) const;
  std::optional<DropReason> WhyDeadOnAll(const WorkItem& item, TimePoint now) const;
  Turn NextTurn() const;
  void CountTurns(const WorkItem& seed);
  void Drop(const WaitingSet::Position& position, DropReason reason, TimePoint now);

  std::vector<std::optional<Replica>> replicas_;  // index: device
  const Modality modality_;
  const Duration max_wait_;
  const size_t bulk_every_;
  const OnDrop on_drop_;
  WaitingSet waiting_;
  size_t batches_since_bulk_ = 0;         // batches that started otherwise while bulk work waited
  size_t batches_since_no_deadline_ = 0;  // likewise for interactive work without deadline
  double draw_ = 0;                       // BatchSituation::draw
  TimePoint shedding_until_;              // deadlines were missed not long before
};

}  // namespace tributary
