// Attention over packed sequences on the CPU: one sequence after the other, nothing padded, nothing but the result
// written to memory that outlives the call. Torch-free; called by encode/attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tributary {

// Rows of one batch, f32. Element (token t, head h, i) of a tensor lies at data[t * stride + h * head_size + i].
struct AttentionRows {
  const float* query = nullptr;  // [T, heads, head_size]
  const float* key = nullptr;    // [T, key_value_heads, head_size]
  const float* value = nullptr;  // as key
  float* context = nullptr;      // [T, heads, head_size]
  int64_t query_stride = 0;      // floats from token to token
  int64_t key_stride = 0;
  int64_t value_stride = 0;
  int64_t context_stride = 0;
};

struct AttentionShape {
  int64_t heads = 0;
  int64_t key_value_heads = 0;  // divides heads
  int64_t head_size = 0;
  float scale = 1;     // of Q K^T
  int64_t before = 0;  // tokens before itself a token sees
  int64_t after = 0;   // tokens after itself; 0: causal
};

// Memory a call works in, kept from call to call: one a thread.
class AttentionScratch {
 public:
  // At least `floats` long, aligned to 64 bytes; what was there before is lost.
  float* Reserve(size_t floats);

 private:
  std::vector<float> memory_;
};

// Whether this processor has a kernel (AVX2 with FMA, or AVX-512).
bool HasCpuAttention();

// softmax(scale * Q K^T) V within each sequence and each token's reach, heads apart; sequences lie after each other
// from token 0 on. Needs HasCpuAttention(). Softmax without its division, then one multiplication a row.
void CpuAttention(const AttentionRows& rows, std::span<const uint32_t> lengths, const AttentionShape& shape,
                  AttentionScratch& scratch);

}  // namespace tributary
