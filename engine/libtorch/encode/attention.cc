#include "engine/libtorch/encode/attention.h"

#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "engine/libtorch/kernels/cpu_attention.h"

namespace tributary {
namespace {

// Queries that share a block of keys where the reach is limited: the products of a block are (block + reach) wide, so
// more queries compute more that is masked away, and fewer make more calls.
constexpr int64_t kBlockQueries = 128;

// Kernels leave rows past the last sequence unwritten: they must not carry NaN into the layers above.
void ClearRest(const at::Tensor& context, const PackedSequences& sequences) {
  int64_t useful = 0;
  for (const uint32_t length : sequences.lengths) useful += length;
  if (useful < context.size(0)) context.narrow(0, useful, context.size(0) - useful).zero_();
}

at::Tensor VarlenFlashAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const PackedSequences& sequences, const AttentionOptions& options) {
  const int64_t longest = *std::max_element(sequences.lengths.begin(), sequences.lengths.end());
  const auto reach = [&](int64_t tokens) { return tokens < longest ? tokens : -1; };
  const at::Tensor context = std::get<0>(at::_flash_attention_forward(
      query, key, value, sequences.cu_seqlens, sequences.cu_seqlens, longest, longest, /*dropout_p=*/0.0,
      /*is_causal=*/options.after == 0, /*return_debug_mask=*/false, options.scale, reach(options.before),
      reach(options.after)));
  ClearRest(context, sequences);
  return context;
}

// Texts of one length. query, context [count, heads, length, D]; key, value [count, key_value_heads, length, D].
void AttendGroup(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 const AttentionOptions& options, const at::Tensor& context) {
  const int64_t length = query.size(2);
  const bool shared_keys = options.key_value_heads != options.heads;
  const auto attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::optional<at::Tensor>& mask, bool causal) {
    return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0, causal, options.scale, shared_keys);
  };
  const int64_t before = std::min(options.before, length - 1);
  const int64_t after = std::min(options.after, length - 1);
  if (before == length - 1 && (after == length - 1 || after == 0)) {
    std::optional<at::Tensor> bias;
    if (options.bias.defined()) bias = options.bias.narrow(1, 0, length).narrow(2, 0, length).unsqueeze(0);
    context.copy_(attend(query, key, value, bias, /*causal=*/after < length - 1));
    return;
  }
  for (int64_t first = 0; first < length; first += kBlockQueries) {
    const int64_t count = std::min(kBlockQueries, length - first);
    const int64_t first_key = std::max<int64_t>(0, first - before);
    const int64_t keys = std::min(length, first + count + after) - first_key;
    const auto integers = at::TensorOptions().dtype(at::kInt).device(query.device());
    const at::Tensor distance = at::arange(first_key, first_key + keys, integers)
                                    .unsqueeze(0)
                                    .sub(at::arange(first, first + count, integers).unsqueeze(1));
    const at::Tensor seen = distance.ge(-before).logical_and_(distance.le(after));
    context.narrow(2, first, count)
        .copy_(attend(query.narrow(2, first, count), key.narrow(2, first_key, keys), value.narrow(2, first_key, keys),
                      seen, /*causal=*/false));
  }
}

at::Tensor GroupedAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const PackedSequences& sequences, const AttentionOptions& options) {
  const int64_t tokens = query.size(0);
  const at::Tensor context = at::empty({tokens, options.heads, options.head_size}, query.options());
  int64_t row = 0;
  for (size_t first = 0; first < sequences.lengths.size();) {
    const int64_t length = sequences.lengths[first];
    size_t end = first + 1;
    while (end < sequences.lengths.size() && sequences.lengths[end] == length) ++end;
    const auto count = static_cast<int64_t>(end - first);
    const auto group = [&](const at::Tensor& rows) {
      return rows.narrow(0, row, count * length).view({count, length, rows.size(1), rows.size(2)}).transpose(1, 2);
    };
    AttendGroup(group(query), group(key), group(value), options, group(context));
    row += count * length;
    first = end;
  }
  ClearRest(context, sequences);
  return context;
}

// What the CPU kernel can do.
bool CpuKernel(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const AttentionOptions& options) {
  const auto rows_of_heads = [&](const at::Tensor& x) {
    return x.scalar_type() == at::kFloat && x.stride(2) == 1 && x.stride(1) == options.head_size;
  };
  return query.is_cpu() && !options.bias.defined() && HasCpuAttention() && rows_of_heads(query) && rows_of_heads(key) &&
         rows_of_heads(value);
}

at::Tensor KernelAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const PackedSequences& sequences, const AttentionOptions& options) {
  // Of the thread, not of the call: a lane's thread runs one batch after the other.
  static thread_local AttentionScratch scratch;
  const at::Tensor context = at::empty({query.size(0), options.heads, options.head_size}, query.options());
  const int64_t longest =
      sequences.lengths.empty() ? 0 : *std::max_element(sequences.lengths.begin(), sequences.lengths.end());
  CpuAttention({.query = query.const_data_ptr<float>(),
                .key = key.const_data_ptr<float>(),
                .value = value.const_data_ptr<float>(),
                .context = context.mutable_data_ptr<float>(),
                .query_stride = query.stride(0),
                .key_stride = key.stride(0),
                .value_stride = value.stride(0),
                .context_stride = context.stride(0)},
               sequences.lengths,
               {.heads = options.heads,
                .key_value_heads = options.key_value_heads,
                .head_size = options.head_size,
                .scale = static_cast<float>(options.scale),
                .before = std::min(options.before, longest),
                .after = std::min(options.after, longest)},
               scratch);
  ClearRest(context, sequences);
  return context;
}

// What the flash kernel can do.
bool Flash(const at::Tensor& query, const AttentionOptions& options) {
  return query.is_cuda() && query.scalar_type() != at::kFloat && !options.bias.defined() &&
         options.head_size % 8 == 0 && options.head_size <= 256;
}

}  // namespace

at::Tensor PackedAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const PackedSequences& sequences, const AttentionOptions& options) {
  const auto attend = Flash(query, options)                   ? VarlenFlashAttention
                      : CpuKernel(query, key, value, options) ? KernelAttention
                                                              : GroupedAttention;
  return attend(query, key, value, sequences, options).view({query.size(0), options.heads * options.head_size});
}

}  // namespace tributary
