#include "engine/libtorch/kernels/cpu_attention.h"

#include <algorithm>

#include "engine/libtorch/kernels/cpu_attention_isa.h"
#include "engine/libtorch/kernels/processor.h"

namespace tributary {
namespace {

struct Kernel {
  int64_t (*scratch_floats)(int64_t length, const AttentionShape& shape);
  void (*attend)(const AttentionRows& rows, int64_t length, const AttentionShape& shape, float* scratch);
};

// The widest this processor has; without functions where it has none.
Kernel ChooseKernel() {
  if (ThisProcessor().avx512) return {avx512::AttentionScratchFloats, avx512::AttendSequence};
  if (ThisProcessor().avx2) return {avx2::AttentionScratchFloats, avx2::AttendSequence};
  return {nullptr, nullptr};
}

const Kernel& ChosenKernel() {
  static const Kernel kernel = ChooseKernel();
  return kernel;
}

}  // namespace

float* AttentionScratch::Reserve(size_t floats) {
  constexpr size_t kAlignment = 64;
  const size_t needed = floats + kAlignment / sizeof(float);
  if (memory_.size() < needed) memory_.resize(needed);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  return reinterpret_cast<float*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

bool HasCpuAttention() { return ChosenKernel().attend != nullptr; }

void CpuAttention(const AttentionRows& rows, std::span<const uint32_t> lengths, const AttentionShape& shape,
                  AttentionScratch& scratch) {
  if (lengths.empty()) return;
  const Kernel& kernel = ChosenKernel();
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  float* const memory = scratch.Reserve(static_cast<size_t>(kernel.scratch_floats(longest, shape)));
  AttentionRows at = rows;
  for (const uint32_t length : lengths) {
    kernel.attend(at, length, shape, memory);
    at.query += length * rows.query_stride;
    at.key += length * rows.key_stride;
    at.value += length * rows.value_stride;
    at.context += length * rows.context_stride;
  }
}

}  // namespace tributary
