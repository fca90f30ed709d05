// MPNet: BERT's layers with a bias by distance on the attention scores, shared by all layers, and RoBERTa's positions.
// Source: Song et al. 2020, https://arxiv.org/abs/2004.09297; tensor names and buckets of transformers' MPNetModel.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/encode/families/bert.h"
#include "engine/libtorch/encode/families/family_parts.h"

namespace tributary {
namespace {

constexpr int64_t kBuckets = 32;
constexpr int64_t kMaxPositions = 4096;  // 64 MiB of bias a head; the models have 514
constexpr int64_t kPaddingId = 1;        // fixed in the reference, whatever pad_token_id says

// Half of the buckets for keys after the query; of each half, half for single distances, the rest logarithmic up to
// 128.
int64_t BucketOf(int64_t key_minus_query) {
  constexpr int64_t kHalf = kBuckets / 2;
  constexpr int64_t kExact = kHalf / 2;
  constexpr float kFarthest = 128;
  const int64_t first = key_minus_query > 0 ? kHalf : 0;
  const int64_t distance = std::abs(key_minus_query);
  if (distance < kExact) return first + distance;
  // In float, as the reference does.
  const float octaves = std::log(static_cast<float>(distance) / kExact) /
                        static_cast<float>(std::log(double{kFarthest} / kExact)) * static_cast<float>(kHalf - kExact);
  return first + std::min(kExact + static_cast<int64_t>(octaves), kHalf - 1);
}

// f32 [heads, length, length] from the table of buckets [kBuckets, heads].
at::Tensor DistanceBias(const at::Tensor& table, int64_t length) {
  std::vector<int64_t> buckets;
  buckets.reserve(static_cast<size_t>(2 * length - 1));
  for (int64_t distance = 1 - length; distance < length; ++distance) buckets.push_back(BucketOf(distance));
  const int64_t heads = table.size(1);
  const at::Tensor bias = table.new_empty({heads, length, length});
  const auto* const from = table.const_data_ptr<float>();
  auto* to = bias.mutable_data_ptr<float>();
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t query = 0; query < length; ++query) {
      for (int64_t key = 0; key < length; ++key) {
        *to++ = from[buckets[static_cast<size_t>(key - query + length - 1)] * heads + head];
      }
    }
  }
  return bias;
}

}  // namespace

LoadedFamily LoadMpNet(const FamilyInput& input) {
  JsonFile& file = input.config;
  EncoderConfig config = ReadEncoderConfig(file);
  // The reference's own code counts 32 buckets, whatever this says.
  if (file.Count("relative_attention_num_buckets", 1 << 20, kBuckets) != kBuckets) {
    file.Fail(absl::StrCat("relative_attention_num_buckets must be ", kBuckets));
  }
  if (config.max_positions > kMaxPositions) {
    file.Fail(absl::StrCat("max_position_embeddings must be at most ", kMaxPositions, ", is ", config.max_positions,
                           ": the bias of every pair of positions is kept"));
  }
  if (config.max_positions <= kPaddingId + 1) file.Fail("max_position_embeddings must be above 2");
  const Activation activation = ReadActivation(file, config, "hidden_act");
  if (!file.status().ok()) return file.status();

  ModuleReader reader(input.weights, "embeddings.word_embeddings.weight", input.type, input.device);
  PostNormParts parts = ReadBertParts(reader, config, activation, /*token_types=*/0, input,
                                      {.query = "attention.attn.q",
                                       .key = "attention.attn.k",
                                       .value = "attention.attn.v",
                                       .attention_output = "attention.attn.o",
                                       .attention_norm = "attention.LayerNorm"});
  parts.padding_id = kPaddingId;
  config.max_positions -= kPaddingId + 1;
  const at::Tensor buckets = reader.Values("encoder.relative_attention_bias.weight", {kBuckets, config.heads});
  if (!reader.status().ok()) return reader.status();
  const at::Tensor bias = DistanceBias(buckets.contiguous(), config.max_positions).to(TorchDevice(input.device));
  for (PostNormLayer& layer : parts.layers) layer.attention.options.bias = bias;
  return Finish<PostNormEncoder>(config, reader, std::move(parts));
}

}  // namespace tributary
