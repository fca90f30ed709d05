#include "engine/queue/modality_queue.h"

#include <array>
#include <atomic>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "engine/admission/admission.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

struct Entry {
  size_t producer = 0;
  size_t number = 0;
};
using EntryPtr = std::unique_ptr<Entry>;

EntryPtr MakeEntry(size_t number, size_t producer = 0) { return std::make_unique<Entry>(Entry{producer, number}); }

TEST_CASE("exactly as many entries fit as the capacity says, and they leave in the order they came") {
  for (size_t capacity : {1, 2, 3, 7, 8, 100, 1000}) {
    CAPTURE(capacity);
    ModalityQueue<EntryPtr> queue(capacity);
    REQUIRE(queue.capacity() == capacity);
    size_t next_in = 0;
    size_t next_out = 0;
    for (int round = 0; round < 5; ++round) {
      while (queue.SizeApprox() < capacity) REQUIRE(queue.TryPush(MakeEntry(next_in++)));
      EntryPtr refused = MakeEntry(4711);
      const bool pushed = queue.TryPush(std::move(refused));
      REQUIRE_FALSE(pushed);
      // NOLINTNEXTLINE(bugprone-use-after-move): a refused entry stays with the caller
      REQUIRE((refused != nullptr && refused->number == 4711));
      for (size_t i = 0; i <= capacity / 2; ++i) {
        std::optional<EntryPtr> entry = queue.TryPop();
        REQUIRE(entry.has_value());
        REQUIRE((*entry)->number == next_out++);
      }
    }
    while (std::optional<EntryPtr> entry = queue.TryPop()) REQUIRE((*entry)->number == next_out++);
    REQUIRE(next_out == next_in);
    REQUIRE(queue.SizeApprox() == 0);
  }
}

TEST_CASE("entries left in the queue are destroyed with it") {
  auto shared = std::make_shared<int>(0);
  {
    ModalityQueue<std::shared_ptr<int>> queue(4);
    for (int i = 0; i < 3; ++i) REQUIRE(queue.TryPush(std::shared_ptr<int>(shared)));
    REQUIRE(shared.use_count() == 4);
  }
  REQUIRE(shared.use_count() == 1);
}

TEST_CASE("100 producers at once get exactly the capacity in, no more and no less") {
  constexpr size_t kProducers = 100;
  for (size_t capacity : {1, 320, 1024}) {
    ModalityQueue<EntryPtr> queue(capacity);
    std::atomic<size_t> accepted{0};
    std::atomic<bool> go{false};
    {
      std::vector<std::jthread> producers;
      for (size_t p = 0; p < kProducers; ++p) {
        producers.emplace_back([&, p] {
          go.wait(false);
          for (size_t i = 0; i < 20; ++i) accepted += queue.TryPush(MakeEntry(i, p)) ? 1 : 0;
        });
      }
      go = true;
      go.notify_all();
    }
    REQUIRE(accepted == capacity);
    size_t popped = 0;
    while (queue.TryPop()) ++popped;
    REQUIRE(popped == capacity);
  }
}

TEST_CASE("with 100 producers and a running consumer nothing is lost and every producer's order is kept") {
  constexpr size_t kProducers = 100;
  constexpr size_t kEach = 500;
  ModalityQueue<EntryPtr> queue(37);
  std::vector<size_t> next(kProducers, 0);
  bool in_order = true;
  {
    std::vector<std::jthread> producers;
    for (size_t p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        for (size_t i = 0; i < kEach; ++i) {
          EntryPtr entry = MakeEntry(i, p);
          while (!queue.TryPush(std::move(entry))) std::this_thread::yield();
        }
      });
    }
    for (size_t popped = 0; popped < kProducers * kEach;) {
      std::optional<EntryPtr> entry = queue.TryPop();
      if (!entry) {
        std::this_thread::yield();
        continue;
      }
      in_order = in_order && (*entry)->number == next[(*entry)->producer]++;
      ++popped;
    }
  }
  REQUIRE(in_order);
  REQUIRE(next == std::vector<size_t>(kProducers, kEach));
  REQUIRE_FALSE(queue.TryPop().has_value());
}

TEST_CASE("a push under an admission permit never fails") {
  constexpr size_t kProducers = 8;
  constexpr size_t kEach = 2000;
  AdmissionOptions options;
  options.max_modality_items = {3, 1, 1};
  Admission admission(options);
  ModalityQueue<std::unique_ptr<Permit>> queue(options.max_modality_items[0]);
  std::atomic<size_t> failed_pushes{0};
  {
    std::vector<std::jthread> producers;
    for (size_t p = 0; p < kProducers; ++p) {
      producers.emplace_back([&] {
        for (size_t i = 0; i < kEach;) {
          absl::StatusOr<Permit> permit = admission.TryAdmit(RequestKind::kText, {1, 0, 0}, 1);
          if (!permit.ok()) {
            std::this_thread::yield();
            continue;
          }
          ++i;
          if (!queue.TryPush(std::make_unique<Permit>(*std::move(permit)))) ++failed_pushes;
        }
      });
    }
    // The consumer gives each permit back after its pop, as the pipeline does when the request is complete.
    for (size_t popped = 0; popped + failed_pushes < kProducers * kEach;) {
      if (queue.TryPop()) {
        ++popped;
      } else {
        std::this_thread::yield();
      }
    }
  }
  REQUIRE(failed_pushes == 0);
  REQUIRE(admission.items_in_flight() == 0);
}

// Its move into the slot can be held up, as if the producer's thread had been descheduled between claiming and filling.
struct Stalling {
  struct Gate {
    std::binary_semaphore claimed{0};
    std::binary_semaphore go_on{0};
  };
  Stalling() = default;
  explicit Stalling(int n, Gate* g = nullptr) : number(n), gate(g) {}
  Stalling(Stalling&&) noexcept = default;
  Stalling& operator=(Stalling&& other) noexcept {
    if (other.gate != nullptr) {
      other.gate->claimed.release();
      other.gate->go_on.acquire();
    }
    number = other.number;
    return *this;
  }
  int number = 0;
  Gate* gate = nullptr;
};

TEST_CASE("a producer stalled between claiming and filling holds up the consumer, never another producer") {
  ModalityQueue<Stalling> queue(3);
  Stalling::Gate gate;
  std::jthread stalled([&] { queue.TryPush(Stalling(1, &gate)); });
  gate.claimed.acquire();

  REQUIRE(queue.TryPush(Stalling(2)));
  REQUIRE(queue.TryPush(Stalling(3)));
  REQUIRE_FALSE(queue.TryPush(Stalling(4)));  // the claimed position counts
  REQUIRE(queue.SizeApprox() == 3);
  REQUIRE_FALSE(queue.TryPop().has_value());

  gate.go_on.release();
  stalled.join();
  for (int expected : {1, 2, 3}) REQUIRE(queue.TryPop()->number == expected);
  REQUIRE_FALSE(queue.TryPop().has_value());
}

}  // namespace
}  // namespace tributary
