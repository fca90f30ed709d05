// What the fake NVML library answers; shared between it and its test.
#pragma once

#include <array>

namespace tributary {

// NVML return codes; 0: success.
struct FakeNvml {
  unsigned int devices = 1;  // at most 2
  int init = 0;
  int count = 0;
  std::array<int, 2> handle{};
  int utilization = 0;
  int memory = 0;
};

}  // namespace tributary
