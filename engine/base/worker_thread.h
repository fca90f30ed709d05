// A named thread that is joined by its owner. Every engine thread is one; the table is in engine/README.md.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

namespace tributary {

// Ownership: the owner makes its loop end first, then destroys or Join()s.
class WorkerThread {
 public:
  WorkerThread() = default;
  // `name`: at most 15 characters are shown by the system ("trib-lane-0").
  WorkerThread(std::string name, std::function<void()> body);
  WorkerThread(WorkerThread&&) = default;
  WorkerThread& operator=(WorkerThread&&) = default;
  ~WorkerThread() { Join(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

// Where the process's cgroup is written down; tests write their own.
struct CgroupPaths {
  std::filesystem::path groups = "/proc/self/cgroup";
  std::filesystem::path mount = "/sys/fs/cgroup";
};

// CPUs' worth of time the process's cgroup and those above it allow: v2 "cpu.max" ("150000 100000": 1.5), else v1's two
// files. 0: no limit.
double CgroupCpuLimit(const CgroupPaths& paths = {});

// CPUs this process may use: its affinity mask, cut by the cgroup's CPU limit, rounded up. At least 1.
size_t UsableCpuCount(const CgroupPaths& cgroup = {});

}  // namespace tributary
