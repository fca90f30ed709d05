#include "engine/schedule/waiting_set.h"

#include <algorithm>

#include "engine/schedule/length_buckets.h"

namespace tributary {

void WaitingSet::Add(WorkItemPtr item, Urgency urgency) {
  const Position position{item->priority, LengthClass(item->units), urgency};
  const auto priority = static_cast<size_t>(item->priority);
  ++items_;
  units_ += item->units;
  by_arrival_[priority].emplace(urgency.arrival, position);
  classes_[priority][position.length_class].emplace(urgency, std::move(item));
}

WorkItemPtr WaitingSet::Take(const Position& position) {
  const auto priority = static_cast<size_t>(position.priority);
  ByUrgency& members = classes_[priority].at(position.length_class);
  const auto found = members.find(position.urgency);
  WorkItemPtr item = std::move(found->second);
  members.erase(found);
  by_arrival_[priority].erase(position.urgency.arrival);
  --items_;
  units_ -= item->units;
  return item;
}

const WorkItem& WaitingSet::At(const Position& position) const {
  return *classes(position.priority).at(position.length_class).at(position.urgency);
}

std::optional<WaitingSet::Position> WaitingSet::MostUrgent(Priority priority, Urgency from) const {
  std::optional<Position> best;
  for (const auto& [length_class, members] : classes(priority)) {
    const auto first = members.lower_bound(from);
    if (first == members.end() || (best && best->urgency < first->first)) continue;
    best = Position{priority, length_class, first->first};
  }
  return best;
}

std::optional<WaitingSet::Position> WaitingSet::Oldest(Priority priority, uint64_t from) const {
  const auto& arrivals = by_arrival_[static_cast<size_t>(priority)];
  const auto first = arrivals.lower_bound(from);
  if (first == arrivals.end()) return std::nullopt;
  return first->second;
}

TimePoint WaitingSet::OldestQueued() const {
  TimePoint oldest = kNoDeadline;
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    if (const auto first = Oldest(priority)) oldest = std::min(oldest, At(*first).times.queued);
  }
  return oldest;
}

TimePoint WaitingSet::EarliestStartBy() const {
  TimePoint earliest = kNoDeadline;
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    if (const auto first = MostUrgent(priority)) earliest = std::min(earliest, first->urgency.start_by);
  }
  return earliest;
}

}  // namespace tributary
