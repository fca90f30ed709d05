// The attention kernel for AVX-512. Compiled with that instruction set: called only where the processor has it.
#include "engine/libtorch/kernels/cpu_attention_isa.h"

namespace tributary::avx512 {
namespace {

constexpr int64_t kLanes = 16;
#include "engine/libtorch/kernels/cpu_attention_kernel.h"

}  // namespace

int64_t AttentionScratchFloats(int64_t length, const AttentionShape& shape) { return ScratchFloats(length, shape); }

void AttendSequence(const AttentionRows& rows, int64_t length, const AttentionShape& shape, float* scratch) {
  return AttendHeads(rows, length, shape, scratch);
}

}  // namespace tributary::avx512
