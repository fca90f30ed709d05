#include "engine/base/worker_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

namespace tributary {
namespace {

// CPUs by a quota and a period as the kernel writes them ("150000", "100000"). 0: no limit ("max", "-1", no such file).
double Limit(const std::string& quota, const std::string& period) {
  const double quota_micros = std::strtod(quota.c_str(), nullptr);
  const double period_micros = std::strtod(period.c_str(), nullptr);
  return quota_micros > 0 && period_micros > 0 ? quota_micros / period_micros : 0;
}

std::string FirstWord(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

}  // namespace

WorkerThread::WorkerThread(std::string name, std::function<void()> body)
    : thread_([name = std::move(name), body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body();
      }) {}

double CgroupCpuLimit(const CgroupPaths& paths) {
  std::string own_group;
  std::ifstream groups(paths.groups);
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) == 0) own_group = line.substr(3);
  }
  // Every group up to the root limits what is in it.
  double limit = 0;
  for (std::filesystem::path group = own_group;; group = group.parent_path()) {
    std::ifstream file(paths.mount / group.relative_path() / "cpu.max");
    std::string quota;
    std::string period;
    file >> quota >> period;
    if (const double of_group = Limit(quota, period); of_group > 0 && (limit == 0 || of_group < limit))
      limit = of_group;
    if (!group.has_relative_path()) break;
  }
  if (limit > 0) return limit;
  const std::filesystem::path v1 = paths.mount / "cpu";
  return Limit(FirstWord(v1 / "cpu.cfs_quota_us"), FirstWord(v1 / "cpu.cfs_period_us"));
}

size_t UsableCpuCount(const CgroupPaths& cgroup) {
  size_t cpus = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cpus = std::max(1, CPU_COUNT(&allowed));
  if (const double limit = CgroupCpuLimit(cgroup); limit > 0) {
    cpus = std::min(cpus, static_cast<size_t>(std::max(1.0, std::ceil(limit))));
  }
  return cpus;
}

}  // namespace tributary
