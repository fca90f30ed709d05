#include "engine/libtorch/kernels/processor.h"

#include <cpuid.h>

#include <cstdlib>
#include <string_view>

namespace tributary {
namespace {

// GCC 12's __builtin_cpu_supports does not know it. Leaf 7, subleaf 1, EAX bit 4.
bool HasAvxVnni() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1U << 4)) != 0;
}

Processor Ask() {
  const char* const held = std::getenv("ATEN_CPU_CAPABILITY");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view most = held == nullptr ? "" : held;
  __builtin_cpu_init();
  Processor processor;
  if (most == "default") return processor;
  processor.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  processor.avx_vnni = processor.avx2 && most != "avx2" && HasAvxVnni();
  if (most == "avx2") return processor;
  processor.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  processor.avx512_vnni = processor.avx512 && __builtin_cpu_supports("avx512vnni");
  return processor;
}

}  // namespace

const Processor& ThisProcessor() {
  static const Processor processor = Ask();
  return processor;
}

}  // namespace tributary
