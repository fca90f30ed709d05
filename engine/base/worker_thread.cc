#include "engine/base/worker_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace tributary {
namespace {

// cgroup v2 "cpu.max" ("200000 100000") of the process's own group, else v1's two files. 0: no limit found.
double CgroupCpuLimit() {
  auto quota_of = [](std::string quota, double period) {
    return quota == "max" || quota.empty() || quota[0] == '-' || period <= 0 ? 0.0 : std::stod(quota) / period;
  };
  std::string own_group;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) == 0) own_group = line.substr(3);
  }
  for (const std::string& folder : {"/sys/fs/cgroup" + own_group, std::string("/sys/fs/cgroup")}) {
    std::ifstream file(folder + "/cpu.max");
    std::string quota;
    double period = 0;
    if (file >> quota >> period) {
      if (const double limit = quota_of(quota, period); limit > 0) return limit;
    }
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  std::string quota;
  double period = 0;
  if (quota_file >> quota && period_file >> period) return quota_of(quota, period);
  return 0;
}

}  // namespace

WorkerThread::WorkerThread(std::string name, std::function<void()> body)
    : thread_([name = std::move(name), body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body();
      }) {}

size_t UsableCpuCount() {
  size_t cpus = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cpus = std::max(1, CPU_COUNT(&allowed));
  if (const double limit = CgroupCpuLimit(); limit > 0) {
    cpus = std::min(cpus, static_cast<size_t>(std::max(1.0, std::ceil(limit))));
  }
  return cpus;
}

}  // namespace tributary
