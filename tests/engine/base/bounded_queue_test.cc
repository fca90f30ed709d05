#include "engine/base/bounded_queue.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

using Entry = std::unique_ptr<int>;

std::vector<int> PopAll(BoundedQueue<Entry>& queue) {
  std::vector<int> popped;
  while (std::optional<Entry> entry = queue.TryPop()) popped.push_back(**entry);
  return popped;
}

TEST_CASE("a full bounded queue refuses the entry and leaves it with the caller") {
  BoundedQueue<Entry> queue(2, 2);
  REQUIRE(queue.TryPush(std::make_unique<int>(1)));
  REQUIRE(queue.TryPush(std::make_unique<int>(2), 1));
  REQUIRE(queue.size() == queue.capacity());
  Entry refused = std::make_unique<int>(3);
  const bool pushed = queue.TryPush(std::move(refused)) || queue.TryPush(std::move(refused), 1);
  REQUIRE_FALSE(pushed);
  REQUIRE(refused != nullptr);  // NOLINT(bugprone-use-after-move)
  REQUIRE(PopAll(queue) == std::vector<int>{1, 2});
}

TEST_CASE("entries of the first class leave before others that came earlier, each class in its order") {
  BoundedQueue<Entry> queue(10, /*classes=*/2, /*turn_every=*/100);
  for (int i : {1, 2}) queue.TryPush(std::make_unique<int>(i), 1);
  for (int i : {11, 12, 13}) queue.TryPush(std::make_unique<int>(i));
  REQUIRE(PopAll(queue) == std::vector<int>{11, 12, 13, 1, 2});
}

TEST_CASE("while a later class waits every n-th pop takes one of it, so it cannot starve") {
  BoundedQueue<Entry> queue(20, /*classes=*/2, /*turn_every=*/3);
  for (int i : {1, 2, 3}) queue.TryPush(std::make_unique<int>(i), 1);
  for (int i = 11; i <= 18; ++i) queue.TryPush(std::make_unique<int>(i));
  REQUIRE(PopAll(queue) == std::vector<int>{11, 12, 1, 13, 14, 2, 15, 16, 3, 17, 18});
}

TEST_CASE("several later classes get their turns in order of their waiting, none is left out") {
  BoundedQueue<Entry> queue(20, /*classes=*/3, /*turn_every=*/3);
  for (int i = 1; i <= 7; ++i) queue.TryPush(std::make_unique<int>(i));
  for (int i : {11, 12, 13}) queue.TryPush(std::make_unique<int>(i), 1);
  for (int i : {21, 22, 23}) queue.TryPush(std::make_unique<int>(i), 2);
  REQUIRE(PopAll(queue) == std::vector<int>{1, 2, 11, 21, 3, 12, 22, 4, 13, 23, 5, 6, 7});
}

TEST_CASE("a closed queue takes nothing more, hands out what it holds, and then ends every pop") {
  BoundedQueue<Entry> queue(4, 2);
  queue.TryPush(std::make_unique<int>(1));
  queue.Close();
  queue.Close();
  REQUIRE_FALSE(queue.TryPush(std::make_unique<int>(2)));
  REQUIRE_FALSE(queue.TryPush(std::make_unique<int>(3), 1));
  REQUIRE(**queue.Pop() == 1);
  REQUIRE_FALSE(queue.Pop().has_value());
}

TEST_CASE("a consumer that waits is woken by a push and by closing") {
  BoundedQueue<Entry> queue(1);
  std::atomic<int> popped{0};
  std::jthread consumer([&] {
    while (std::optional<Entry> entry = queue.Pop()) {
      popped = **entry;
      popped.notify_one();
    }
  });
  REQUIRE(queue.TryPush(std::make_unique<int>(5)));
  popped.wait(0);
  REQUIRE(popped == 5);
  queue.Close();
  consumer.join();
}

TEST_CASE("with many producers and consumers every entry is popped exactly once") {
  constexpr int kProducers = 6;
  constexpr int kEach = 2000;
  BoundedQueue<Entry> queue(16, /*classes=*/3, /*turn_every=*/4);
  std::vector<std::atomic<int>> seen(kProducers * kEach);
  {
    std::vector<std::jthread> consumers;
    for (int c = 0; c < 3; ++c) {
      consumers.emplace_back([&] {
        while (std::optional<Entry> entry = queue.Pop()) seen[static_cast<size_t>(**entry)].fetch_add(1);
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int p = 0; p < kProducers; ++p) {
        producers.emplace_back([&, p] {
          for (int i = 0; i < kEach; ++i) {
            auto entry = std::make_unique<int>(p * kEach + i);
            while (!queue.TryPush(std::move(entry), static_cast<size_t>(i % 3))) {
              std::this_thread::yield();
            }
          }
        });
      }
    }
    queue.Close();
  }
  int wrong = 0;
  for (const std::atomic<int>& count : seen) wrong += count == 1 ? 0 : 1;
  REQUIRE(wrong == 0);
}

}  // namespace
}  // namespace tributary
