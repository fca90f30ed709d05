#include "engine/base/worker_thread.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_name.h"

namespace tributary {
namespace {

TEST_CASE("a worker thread carries its name, cut to what the system shows, and is joined by its owner") {
  std::string name;
  {
    WorkerThread thread("trib-quite-a-long-name", [&name] { name = CurrentThreadName(); });
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

TEST_CASE("the cgroup's CPU limit is the smallest of its own and those above it, rounded up to whole CPUs") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  const auto cpus = static_cast<size_t>(CPU_COUNT(&allowed));

  struct Case {
    std::string name;
    std::map<std::string, std::string> files;
    double limit;
    size_t most_cpus;
  };
  const std::string own = "0::/pods/own\n";
  for (const Case& c : std::vector<Case>{
           {"no cgroup at all", {}, 0, cpus},
           {"no limit", {{"groups", own}, {"mount/pods/own/cpu.max", "max 100000\n"}}, 0, cpus},
           {"one and a half", {{"groups", own}, {"mount/pods/own/cpu.max", "150000 100000\n"}}, 1.5, 2},
           {"less than one", {{"groups", own}, {"mount/pods/own/cpu.max", "20000 100000\n"}}, 0.2, 1},
           {"exactly one", {{"groups", own}, {"mount/pods/own/cpu.max", "50000 50000\n"}}, 1, 1},
           {"a group above",
            {{"groups", own}, {"mount/pods/own/cpu.max", "max 100000\n"}, {"mount/pods/cpu.max", "100000 100000\n"}},
            1,
            1},
           {"the smaller of two",
            {{"groups", own}, {"mount/pods/own/cpu.max", "50000 100000\n"}, {"mount/pods/cpu.max", "400000 100000\n"}},
            0.5,
            1},
           {"a container's own root", {{"groups", own}, {"mount/cpu.max", "100000 100000\n"}}, 1, 1},
           {"only version 1 groups",
            {{"groups", "4:cpu,cpuacct:/own\n"},
             {"mount/cpu/cpu.cfs_quota_us", "100000\n"},
             {"mount/cpu/cpu.cfs_period_us", "100000\n"}},
            1,
            1},
           {"version 1 without a limit",
            {{"mount/cpu/cpu.cfs_quota_us", "-1\n"}, {"mount/cpu/cpu.cfs_period_us", "100000\n"}},
            0,
            cpus},
           {"nonsense", {{"groups", own}, {"mount/pods/own/cpu.max", "many\n"}}, 0, cpus},
           {"an empty file", {{"groups", own}, {"mount/pods/own/cpu.max", ""}}, 0, cpus}}) {
    INFO(c.name);
    const TemporaryFolder folder;
    for (const auto& [name, content] : c.files) folder.Write(name, content);
    const CgroupPaths paths{.groups = folder.File("groups"), .mount = folder.File("mount")};
    CHECK(CgroupCpuLimit(paths) == c.limit);
    CHECK(UsableCpuCount(paths) == std::min(c.most_cpus, cpus));
  }
}

}  // namespace
}  // namespace tributary
