#include "engine/base/mutex.h"

#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value TRIBUTARY_GUARDED_BY(mutex) = 0;
};

TEST_CASE("a mutex lets one thread in at a time") {
  Counter counter;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          MutexLock lock(counter.mutex);
          ++counter.value;
        }
      });
    }
  }
  MutexLock lock(counter.mutex);
  REQUIRE(counter.value == 4000);
}

TEST_CASE("a wait lets others change the condition and holds the lock again when it returns") {
  Counter counter;
  std::jthread other([&] {
    {
      MutexLock lock(counter.mutex);
      counter.value = 1;
    }
    counter.changed.NotifyAll();
  });
  MutexLock lock(counter.mutex);
  while (counter.value == 0) counter.changed.WaitUntil(counter.mutex, kNoDeadline);
  REQUIRE(counter.value == 1);
}

TEST_CASE("a wait until a moment that has passed reports it and keeps the lock") {
  Counter counter;
  MutexLock lock(counter.mutex);
  REQUIRE_FALSE(counter.changed.WaitUntil(counter.mutex, SteadyClock().Now()));
  counter.value = 2;
  REQUIRE(counter.value == 2);
}

}  // namespace
}  // namespace tributary
