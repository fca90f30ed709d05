// A named thread that is joined by its owner. Every engine thread is one; the table is in engine/README.md.
#pragma once

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

// CPUs this process may use: its affinity mask, cut by the cgroup's CPU quota. At least 1.
size_t UsableCpuCount();

}  // namespace tributary
