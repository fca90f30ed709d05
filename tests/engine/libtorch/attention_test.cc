// Packed attention with limited reach, shared keys and a bias, against a plain computation in double.
#include "engine/libtorch/encode/attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/libtorch/device/torch_device.h"
#include "engine/libtorch/device/torch_thread.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

at::Tensor Random(const std::vector<int64_t>& shape, std::mt19937& random) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.mutable_data_ptr<float>()[i] = normal(random);
  return tensor;
}

// The context of one query of one head.
std::vector<double> Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t start,
                           int64_t length, int64_t at, int64_t head, const AttentionOptions& options) {
  const int64_t size = options.head_size;
  const int64_t shared = head / (options.heads / options.key_value_heads);
  const auto row = [&](const at::Tensor& x, int64_t token, int64_t h) {
    return x.const_data_ptr<float>() + ((start + token) * x.size(1) + h) * size;
  };
  std::vector<double> mixed(static_cast<size_t>(size));
  double total = 0;
  for (int64_t other = 0; other < length; ++other) {
    if (other < at && at - other > options.before) continue;
    if (other > at && other - at > options.after) continue;
    const double product =
        std::inner_product(row(query, at, head), row(query, at, head) + size, row(key, other, shared), 0.0);
    double score = product * options.scale;
    if (options.bias.defined()) {
      score += options.bias.const_data_ptr<float>()[(head * options.bias.size(1) + at) * options.bias.size(2) + other];
    }
    const double weight = std::exp(score);
    total += weight;
    for (int64_t i = 0; i < size; ++i) mixed[static_cast<size_t>(i)] += weight * row(value, other, shared)[i];
  }
  for (double& x : mixed) x /= total;
  return mixed;
}

void CheckAgainstPlain(AttentionOptions options, const std::vector<uint32_t>& lengths) {
  InitTorchThread();
  const auto status = GuardTorch([&] {
    std::mt19937 random(5);
    const int64_t useful = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    const int64_t rows = useful + 3;
    options.scale = 0.3;
    const at::Tensor query = Random({rows, options.heads, options.head_size}, random);
    const at::Tensor key = Random({rows, options.key_value_heads, options.head_size}, random);
    const at::Tensor value = Random({rows, options.key_value_heads, options.head_size}, random);
    const at::Tensor context = PackedAttention(query, key, value, {.lengths = lengths, .cu_seqlens = {}}, options);
    REQUIRE(context.size(0) == rows);
    double largest = 0;
    int64_t start = 0;
    for (const uint32_t length : lengths) {
      for (int64_t at = 0; at < length; ++at) {
        for (int64_t head = 0; head < options.heads; ++head) {
          const auto expected = Attend(query, key, value, start, length, at, head, options);
          const float* const actual =
              context.const_data_ptr<float>() + ((start + at) * options.heads + head) * options.head_size;
          for (int64_t i = 0; i < options.head_size; ++i) {
            largest = std::max(largest, std::abs(expected[static_cast<size_t>(i)] - actual[i]));
          }
        }
      }
      start += length;
    }
    CHECK(largest < 1e-5);  // fp32 against double
    for (int64_t i = useful * context.size(1); i < context.numel(); ++i) {
      CHECK(context.const_data_ptr<float>()[i] == 0);
    }
    return absl::OkStatus();
  });
  CAPTURE(std::string(status.message()));
  CHECK(status.ok());
}

// Longer than one block of queries, as long as the reach and shorter; two of one length.
const std::vector<uint32_t> kLengths = {300, 129, 129, 40, 9, 8, 1};

TEST_CASE("A token that sees the whole text, the text before it, or a window gets what a plain computation gives") {
  constexpr int64_t kAll = AttentionOptions::kWholeText;
  const std::pair<int64_t, int64_t> reaches[] = {{kAll, kAll}, {kAll, 0}, {8, 8}, {8, 0}, {0, 0}, {200, 3}, {kAll, 20}};
  for (const auto& [before, after] : reaches) {
    CAPTURE(before, after);
    CheckAgainstPlain({.heads = 2, .key_value_heads = 2, .head_size = 8, .before = before, .after = after, .bias = {}},
                      kLengths);
  }
}

TEST_CASE("Every head size and every short length gives what a plain computation gives") {
  std::vector<uint32_t> lengths;
  for (uint32_t length = 40; length > 0; --length) lengths.push_back(length);
  constexpr int64_t kAll = AttentionOptions::kWholeText;
  for (const int64_t size : {1, 7, 16, 32, 64, 80, 128}) {
    CAPTURE(size);
    CheckAgainstPlain({.heads = 2, .key_value_heads = 1, .head_size = size, .before = kAll, .after = kAll, .bias = {}},
                      lengths);
  }
}

TEST_CASE("A number that is not finite is never smoothed away") {
  InitTorchThread();
  const auto status = GuardTorch([&] {
    std::mt19937 random(7);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const std::vector<uint32_t> lengths = {20, 20};
      const AttentionOptions options{.heads = 1, .key_value_heads = 1, .head_size = 32, .scale = 0.2, .bias = {}};
      const at::Tensor query = Random({40, 1, 32}, random);
      const at::Tensor key = Random({40, 1, 32}, random);
      const at::Tensor value = Random({40, 1, 32}, random);
      key.mutable_data_ptr<float>()[5 * 32 + 3] = bad;  // of the first sequence
      const at::Tensor context = PackedAttention(query, key, value, {.lengths = lengths, .cu_seqlens = {}}, options);
      int64_t not_finite = 0;
      for (int64_t i = 0; i < 20 * 32; ++i) not_finite += std::isfinite(context.const_data_ptr<float>()[i]) ? 0 : 1;
      // NaN: every query saw it. Infinity: those whose product with it was plus infinity.
      if (std::isnan(bad)) CHECK(not_finite == 20 * 32);
      CHECK(not_finite > 0);
      for (int64_t i = 20 * 32; i < 40 * 32; ++i) CHECK(std::isfinite(context.const_data_ptr<float>()[i]));
    }
    return absl::OkStatus();
  });
  CAPTURE(std::string(status.message()));
  CHECK(status.ok());
}

TEST_CASE("Heads that share keys and values give what a plain computation gives, whole and in windows") {
  for (const int64_t reach : {AttentionOptions::kWholeText, int64_t{30}}) {
    CAPTURE(reach);
    CheckAgainstPlain({.heads = 6, .key_value_heads = 2, .head_size = 4, .before = reach, .after = reach, .bias = {}},
                      kLengths);
  }
}

TEST_CASE("A bias is added to the scores of its head") {
  std::mt19937 random(6);
  CheckAgainstPlain({.heads = 3, .key_value_heads = 3, .head_size = 4, .bias = Random({3, 310, 310}, random)},
                    kLengths);
}

}  // namespace
}  // namespace tributary
