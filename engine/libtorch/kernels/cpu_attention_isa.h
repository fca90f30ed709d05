// The attention kernel's forms, one an instruction set. Internal to kernels/cpu_attention.
#pragma once

#include <cstdint>

#include "engine/libtorch/kernels/cpu_attention.h"

namespace tributary {

// Floats AttendSequence works in for a sequence of this length.
// AttendSequence: all heads of one sequence; the pointers of `rows` are at its first token.
namespace avx2 {
int64_t AttentionScratchFloats(int64_t length, const AttentionShape& shape);
void AttendSequence(const AttentionRows& rows, int64_t length, const AttentionShape& shape, float* scratch);
}  // namespace avx2
namespace avx512 {
int64_t AttentionScratchFloats(int64_t length, const AttentionShape& shape);
void AttendSequence(const AttentionRows& rows, int64_t length, const AttentionShape& shape, float* scratch);
}  // namespace avx512

}  // namespace tributary
