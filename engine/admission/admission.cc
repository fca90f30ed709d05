#include "engine/admission/admission.h"

#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Exchange in a loop and not add-then-undo: an undone addition of a large call would refuse small ones in passing.
// acquire: pairs with Return of the permits that made room.
bool Take(std::atomic<size_t>& counter, size_t amount, size_t limit, size_t* in_flight) {
  size_t current = counter.load(std::memory_order_relaxed);
  do {
    if (amount > limit || current > limit - amount) {
      *in_flight = current;
      return false;
    }
  } while (
      !counter.compare_exchange_weak(current, current + amount, std::memory_order_acq_rel, std::memory_order_relaxed));
  return true;
}

// release: what the permit's holder did (its pops, above all) is visible to whoever is admitted in its place.
void Return(std::atomic<size_t>& counter, size_t amount) {
  if (amount > 0) counter.fetch_sub(amount, std::memory_order_acq_rel);
}

std::string_view KindName(RequestKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"text", "image", "pair"};
  return kNames[static_cast<size_t>(kind)];
}

absl::Status Exhausted(RequestKind kind, size_t amount, std::string_view what, size_t in_flight, std::string_view key,
                       size_t limit) {
  auto view = [](std::string_view s) { return absl::string_view(s.data(), s.size()); };
  const std::string asked = absl::StrCat(view(KindName(kind)), " call refused: it needs ", amount, " ", view(what));
  if (amount > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(asked, ", more than ", view(key), " = ", limit, " allows at all; send it in smaller calls"));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(asked, ", ", in_flight, " of ", view(key), " = ", limit, " are in flight; retry later"));
}

}  // namespace

absl::StatusOr<Permit> Admission::TryAdmit(RequestKind kind, const ItemCounts& items, size_t bytes,
                                           RejectReason* reason) {
  auto refuse = [&](RejectReason why, absl::Status status) {
    if (reason != nullptr) *reason = why;
    return status;
  };
  // Enter first, then look at the flag (seq_cst, paired with StopAdmitting and WaitUntilIdle): whoever sees 0 requests
  // after StopAdmitting knows that every later entrant sees the flag.
  requests_.fetch_add(1, std::memory_order_seq_cst);
  Permit permit(this);  // grows with what was taken; gives it back on refusal
  if (draining_.load(std::memory_order_seq_cst)) {
    return refuse(RejectReason::kDraining,
                  absl::UnavailableError("the server is draining and takes no new calls; use another replica"));
  }
  size_t in_flight = 0;
  const size_t total = std::accumulate(items.begin(), items.end(), size_t{0});
  if (!Take(items_, total, options_.max_items, &in_flight)) {
    return refuse(RejectReason::kItems,
                  Exhausted(kind, total, "items", in_flight, "admission.max_items", options_.max_items));
  }
  permit.total_items_ = total;
  for (Modality modality : kAllModalities) {
    const auto m = static_cast<size_t>(modality);
    const size_t limit = options_.max_modality_items[m];
    if (items[m] > 0 && !Take(modality_items_[m], items[m], limit, &in_flight)) {
      const std::string name(ModalityName(modality));
      return refuse(RejectReason::kModalityItems, Exhausted(kind, items[m], name + " items", in_flight,
                                                            "admission.max_modality_items." + name, limit));
    }
    permit.items_[m] = items[m];
  }
  if (!Take(bytes_, bytes, options_.max_bytes, &in_flight)) {
    return refuse(RejectReason::kBytes,
                  Exhausted(kind, bytes, "bytes", in_flight, "admission.max_bytes", options_.max_bytes));
  }
  permit.bytes_ = bytes;
  return permit;
}

Admission::Permit& Admission::Permit::operator=(Permit&& other) noexcept {
  if (this != &other) {
    GiveBack();
    admission_ = std::exchange(other.admission_, nullptr);
    items_ = other.items_;
    total_items_ = other.total_items_;
    bytes_ = other.bytes_;
  }
  return *this;
}

void Admission::Permit::GiveBack() {
  Admission* admission = std::exchange(admission_, nullptr);
  if (admission == nullptr) return;
  for (size_t m = 0; m < kModalityCount; ++m) Return(admission->modality_items_[m], items_[m]);
  Return(admission->items_, total_items_);
  Return(admission->bytes_, bytes_);
  admission->LeaveRequest();
}

// The last to leave wakes whoever waits. seq_cst: it lowers requests_ and then reads idle_waiters_, the waiter does it
// the other way round; at least one of them sees the other.
void Admission::LeaveRequest() {
  if (requests_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  if (idle_waiters_.load(std::memory_order_seq_cst) == 0) return;
  // Under the lock: the waiter is then either before its test or inside the wait.
  MutexLock lock(idle_mutex_);
  idle_.NotifyAll();
}

bool Admission::WaitUntilIdle(Duration timeout) {
  const TimePoint now = SteadyClock().Now();
  const TimePoint wake_at = timeout >= kNoDeadline - now ? kNoDeadline : now + timeout;
  MutexLock lock(idle_mutex_);
  idle_waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool idle = requests_.load(std::memory_order_seq_cst) == 0;
  while (!idle) {
    const bool in_time = idle_.WaitUntil(idle_mutex_, wake_at);
    idle = requests_.load(std::memory_order_seq_cst) == 0;
    if (!in_time) break;
  }
  idle_waiters_.fetch_sub(1, std::memory_order_relaxed);
  return idle;
}

}  // namespace tributary
