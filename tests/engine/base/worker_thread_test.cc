#include "engine/base/worker_thread.h"

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <string>

#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("a worker thread carries its name, cut to what the system shows, and is joined by its owner") {
  std::string name;
  {
    WorkerThread thread("trib-quite-a-long-name", [&name] {
      std::array<char, 32> buffer{};
      pthread_getname_np(pthread_self(), buffer.data(), buffer.size());
      name = buffer.data();
    });
  }
  REQUIRE(name == "trib-quite-a-lo");
}

TEST_CASE("a moved worker thread still runs once and joining twice is harmless") {
  std::atomic<int> runs{0};
  WorkerThread first("trib-test", [&runs] { ++runs; });
  WorkerThread second = std::move(first);
  second.Join();
  second.Join();
  REQUIRE(runs == 1);
}

TEST_CASE("the usable CPUs are at least one and at most those of the affinity mask") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  REQUIRE(UsableCpuCount() >= 1);
  REQUIRE(UsableCpuCount() <= static_cast<size_t>(CPU_COUNT(&allowed)));
  // Pinned to one CPU, one is what is left.
  size_t pinned = 0;
  WorkerThread thread("trib-test", [&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) {
        CPU_SET(cpu, &one);
        break;
      }
    }
    if (sched_setaffinity(0, sizeof(one), &one) == 0) pinned = UsableCpuCount();
  });
  thread.Join();
  REQUIRE(pinned == 1);
}

}  // namespace
}  // namespace tributary
