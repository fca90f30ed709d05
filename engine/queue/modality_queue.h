// The lock-free queue of one modality: preparation workers (and the pair join) push, the scheduler thread pops.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace tributary {

// A bounded ring of slots, each with a sequence number that says whose turn it is. Position p (counted from 0, for
// ever) lives in slot p % capacity. The slot's sequence is 2p: free for the producer of p; 2p+1: filled, for the
// consumer; the consumer sets it to 2(p + capacity). (Steps of two, so that capacity 1 can tell "filled" from "free
// again".)
//
// Invariants: exactly `capacity` entries fit, whatever the number; first in, first out by claimed position, so also per
//   producer; nothing is lost or seen twice.
// A push after admission cannot fail: with at most `capacity` permits, each taken (acquire) before its push and given
// back
//   (release) after its pop, the slot of a claimed position has been freed, and that is visible to the producer: either
//   through its own permit, or through `tail_` from a producer that was admitted later.
// Thread-safety: TryPush, SizeApprox and capacity from any thread; TryPop from one thread.
// Progress: TryPush is lock-free: a failed exchange means that another producer got a position. TryPop is wait-free.
//   A producer stalled between claiming its position and filling it holds up the consumer (TryPop answers "nothing"
//   although later positions are filled) and, once the ring has gone round, the producers (TryPush answers "full");
//   nobody spins, and all goes on when it resumes. So: whoever waits for entries must be notified after each TryPush
//   returned.
// Not guaranteed: order between pushes of different threads that no synchronisation orders; SizeApprox is a gauge.
// Memory order:
//   sequence: release by the producer that filled it -> acquire by the consumer: the value is complete.
//   sequence: release by the consumer that emptied it -> acquire by the next producer: the slot may be overwritten.
//   tail_: release by the exchange that claims p -> acquire by the load that reads a later tail: what that producer
//   knew of
//     freed slots, the next one knows. (Exchanges are read-modify-writes, so the chain reaches back over all of them.)
//   head_: relaxed; written by the consumer only, read by others for SizeApprox.
// Ownership: a refused entry stays with the caller, unchanged; entries left over are destroyed with the queue.
// Source: D. Vyukov, bounded MPMC queue, 1024cores.net, reduced to one consumer.
template <class T>
class ModalityQueue {
  static_assert(std::is_nothrow_default_constructible_v<T> && std::is_nothrow_move_constructible_v<T> &&
                    std::is_nothrow_move_assignable_v<T>,
                "an exception between claiming and filling a slot would stop the consumer for good");

 public:
  // `capacity` >= 1.
  explicit ModalityQueue(size_t capacity) : capacity_(capacity), slots_(std::make_unique<Slot[]>(capacity)) {
    for (size_t i = 0; i < capacity; ++i) slots_[i].sequence.store(2 * i, std::memory_order_relaxed);
  }

  // False: full.
  bool TryPush(T&& entry) {
    uint64_t position = tail_.load(std::memory_order_acquire);
    for (;;) {
      Slot& slot = slots_[position % capacity_];
      const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
      if (sequence == 2 * position) {
        if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
          slot.value = std::move(entry);
          slot.sequence.store(2 * position + 1, std::memory_order_release);
          return true;
        }
      } else if (sequence < 2 * position) {
        return false;  // the entry from one round ago is still there
      } else {
        position = tail_.load(std::memory_order_acquire);  // another producer was faster
      }
    }
  }

  // nullopt: empty, or the next position is claimed and not filled yet.
  std::optional<T> TryPop() {
    const uint64_t position = head_.load(std::memory_order_relaxed);
    Slot& slot = slots_[position % capacity_];
    if (slot.sequence.load(std::memory_order_acquire) != 2 * position + 1) return std::nullopt;
    std::optional<T> entry(std::move(slot.value));
    slot.sequence.store(2 * (position + capacity_), std::memory_order_release);
    head_.store(position + 1, std::memory_order_relaxed);
    return entry;
  }

  // Positions claimed and not popped, at some moment of the recent past; 0..capacity.
  size_t SizeApprox() const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    return tail <= head ? 0 : std::min<uint64_t>(tail - head, capacity_);
  }
  size_t capacity() const { return capacity_; }

 private:
  // std::hardware_destructive_interference_size makes g++ warn about ABI; 64 bytes on x86-64 and on most ARM cores.
  static constexpr size_t kCacheLine = 64;

  struct Slot {
    std::atomic<uint64_t> sequence;
    T value{};
  };

  // Read by all, written by none; then the producers' line; then the consumer's.
  const size_t capacity_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(kCacheLine) std::atomic<uint64_t> tail_{0};
  alignas(kCacheLine) std::atomic<uint64_t> head_{0};
};

}  // namespace tributary
