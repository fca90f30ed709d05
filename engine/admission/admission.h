// The door of the engine: limits on what is in flight, held by a permit from Submit until the completion has run.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/api/observer.h"
#include "engine/api/options.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"

namespace tributary {

// Called by engine/pipeline: TryAdmit on the front end's thread, before anything of the request is touched.
// Invariants: no counter ever exceeds its limit; every permit gives back exactly what it took; after StopAdmitting()
// the
//   number of requests only falls, so WaitUntilIdle() == true then stays true.
// The modality queues are as long as `max_modality_items`, so a push under a permit cannot fail: a permit is given back
//   with release order and taken with acquire order, see queue/modality_queue.h.
// Thread-safety: all methods from any thread; no lock on the way in or out (one is taken to wake WaitUntilIdle).
//   Close to a limit, two calls that come at the same moment may both be refused although one of them would have
//   fitted.
// Ownership: must outlive every permit.
// Errors: RESOURCE_EXHAUSTED a limit is reached (retry later) or the call is larger than a limit; UNAVAILABLE draining.
class Admission {
 public:
  using ItemCounts = std::array<size_t, kModalityCount>;  // index: Modality

  // Holds a request's share of the limits; move-only, gives it back when destroyed.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          items_(other.items_),
          total_items_(other.total_items_),
          bytes_(other.bytes_) {}
    Permit& operator=(Permit&& other) noexcept;
    ~Permit() { GiveBack(); }
    // Now instead of at destruction. Idempotent.
    void GiveBack();

   private:
    friend class Admission;
    explicit Permit(Admission* admission) : admission_(admission) {}

    Admission* admission_ = nullptr;
    ItemCounts items_{};
    size_t total_items_ = 0;
    size_t bytes_ = 0;
  };

  explicit Admission(const AdmissionOptions& options) : options_(options) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // `items`: per modality, what the request will send through that queue. `reason`, when not null, is set on refusal.
  absl::StatusOr<Permit> TryAdmit(RequestKind kind, const ItemCounts& items, size_t bytes,
                                  RejectReason* reason = nullptr);

  // From now on TryAdmit answers UNAVAILABLE. Idempotent.
  void StopAdmitting() { draining_.store(true, std::memory_order_seq_cst); }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

  // Waits until no request holds a permit, at most `timeout` (of the steady clock). True: idle.
  bool WaitUntilIdle(Duration timeout) TRIBUTARY_EXCLUDES(idle_mutex_);

  size_t requests_in_flight() const { return requests_.load(std::memory_order_relaxed); }
  size_t items_in_flight() const { return items_.load(std::memory_order_relaxed); }
  size_t bytes_in_flight() const { return bytes_.load(std::memory_order_relaxed); }
  size_t modality_items_in_flight(Modality modality) const {
    return modality_items_[static_cast<size_t>(modality)].load(std::memory_order_relaxed);
  }
  const AdmissionOptions& options() const { return options_; }

 private:
  void LeaveRequest();

  const AdmissionOptions options_;
  std::atomic<size_t> requests_{0};
  std::atomic<size_t> items_{0};
  std::atomic<size_t> bytes_{0};
  std::array<std::atomic<size_t>, kModalityCount> modality_items_{};
  std::atomic<bool> draining_{false};

  // Only for WaitUntilIdle; guards nothing but the sleep.
  Mutex idle_mutex_;
  CondVar idle_;
  std::atomic<size_t> idle_waiters_{0};
};

using Permit = Admission::Permit;

}  // namespace tributary
