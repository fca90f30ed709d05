// The attention kernel for AVX2 with FMA. Compiled with that instruction set: called only where the processor has it.
#include "engine/libtorch/kernels/cpu_attention_isa.h"

namespace tributary::avx2 {

constexpr int64_t kLanes = 8;
#include "engine/libtorch/kernels/cpu_attention_kernel.h"

}  // namespace tributary::avx2
