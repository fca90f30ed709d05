// Items of one encoder waiting for a batch, found by urgency within their length class, and by arrival. Between the
// modality queue and a batch.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "engine/queue/work_item.h"

namespace tributary {

// Order of urgency: the latest moment at which the item, alone, can start and still make its deadline. For items of one
// length that is earliest deadline first; between lengths it gives a long text the head start it needs, where plain
// deadlines would let the short ones pass until the long one is lost. Without a deadline: last, by arrival.
struct Urgency {
  TimePoint start_by = kNoDeadline;
  uint64_t arrival = 0;  // unique, in order of arrival
  auto operator<=>(const Urgency&) const = default;
};

// Invariant: every operation costs O(log n) in the waiting items, times the few length classes where it looks at all.
// Thread-safety: none; scheduler thread.
// Ownership: owns the items until Take.
class WaitingSet {
 public:
  using ByUrgency = std::map<Urgency, WorkItemPtr>;
  using ByLengthClass = std::map<uint32_t, ByUrgency>;  // a class may be empty

  struct Position {
    Priority priority = Priority::kInteractive;
    uint32_t length_class = 0;
    Urgency urgency;
    auto operator<=>(const Position&) const = default;
  };

  void Add(WorkItemPtr item, Urgency urgency);
  WorkItemPtr Take(const Position& position);
  const WorkItem& At(const Position& position) const;

  // The most urgent item at `from` or after.
  std::optional<Position> MostUrgent(Priority priority, Urgency from = {TimePoint::min(), 0}) const;
  // The first to arrive of those numbered `from` or later.
  std::optional<Position> Oldest(Priority priority, uint64_t from = 0) const;
  const ByLengthClass& classes(Priority priority) const { return classes_[static_cast<size_t>(priority)]; }

  bool empty() const { return items_ == 0; }
  size_t items() const { return items_; }
  uint64_t units() const { return units_; }
  // ItemTimes::queued of the item that arrived first; kNoDeadline when empty.
  TimePoint OldestQueued() const;
  // Of the most urgent item; kNoDeadline when empty.
  TimePoint EarliestStartBy() const;

 private:
  std::array<ByLengthClass, 2> classes_;                    // index: Priority
  std::array<std::map<uint64_t, Position>, 2> by_arrival_;  // index: Priority
  size_t items_ = 0;
  uint64_t units_ = 0;
};

}  // namespace tributary
