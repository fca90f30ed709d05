// The attention kernel for AVX-512. Compiled with that instruction set: called only where the processor has it.
#include "engine/libtorch/kernels/cpu_attention_isa.h"

namespace tributary::avx512 {

constexpr int64_t kLanes = 16;
#include "engine/libtorch/kernels/cpu_attention_kernel.h"

}  // namespace tributary::avx512
