#include "engine/libtorch/kernels/int8_weight.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

std::vector<float> Multiply(const Int8Weight& weight, const std::vector<float>& x, Int8Path path) {
  const size_t rows = x.size() / weight.in();
  std::vector<float> y(rows * weight.out(), -1.0f);
  weight.Multiply(x.data(), rows, y.data(), {}, path);
  return y;
}

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Rounded {
  std::vector<int64_t> integers;
  float scale = 0;
};

Rounded RoundOutput(const float* values, size_t count) {
  float largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  Rounded rounded{.integers = {}, .scale = largest / 127};
  for (size_t i = 0; i < count; ++i) {
    rounded.integers.push_back(static_cast<int64_t>(std::nearbyint(values[i] * (1 / rounded.scale))));
  }
  return rounded;
}

Rounded RoundRow(const float* values, size_t count) {
  float low = 0, high = 0;
  for (size_t i = 0; i < count; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  Rounded rounded{.integers = {}, .scale = high / 255 + -low / 255};
  const auto nearest = [&](float value) { return static_cast<int64_t>(std::nearbyint(value * (1 / rounded.scale))); };
  for (size_t i = 0; i < count; ++i) {
    rounded.integers.push_back(std::clamp(nearest(values[i]), nearest(low), nearest(low) + 255));
  }
  return rounded;
}

// By the definition, in 64-bit integers.
std::vector<float> Reference(const std::vector<float>& weight, const std::vector<float>& bias,
                             const std::vector<float>& x, size_t in) {
  std::vector<Rounded> outputs;
  for (size_t o = 0; o < weight.size() / in; ++o) outputs.push_back(RoundOutput(weight.data() + o * in, in));
  std::vector<float> y;
  for (size_t row = 0; row < x.size() / in; ++row) {
    const Rounded values = RoundRow(x.data() + row * in, in);
    for (size_t o = 0; o < outputs.size(); ++o) {
      int64_t sum = 0;
      for (size_t i = 0; i < in; ++i) sum += values.integers[i] * outputs[o].integers[i];
      y.push_back(static_cast<float>(sum) * (values.scale * outputs[o].scale) + bias[o]);
    }
  }
  return y;
}

TEST_CASE("An int8 product equals its definition in 64-bit integers, to the bit, for every remainder of its blocks") {
  struct Shape {
    size_t rows, out, in;
  };
  for (const auto& [rows, out, in] :
       {Shape{1, 1, 1}, {2, 15, 2}, {3, 16, 3}, {4, 17, 64}, {5, 33, 127}, {97, 40, 96}, {200, 31, 33}}) {
    const auto weight = Random(out * in, 1);
    const auto bias = Random(out, 2);
    const auto x = Random(rows * in, 3);
    const auto expected = Reference(weight, bias, x, in);
    for (const Int8Path path : Int8Paths()) {
      CAPTURE(rows, out, in, std::string(Int8PathName(path)));
      CHECK(Multiply(Int8Weight(weight.data(), bias.data(), out, in), x, path) == expected);
    }
  }
}

TEST_CASE("The largest values of both sides, all of one sign or alternating, do not saturate") {
  for (const size_t in : {size_t{4096}, Int8Weight::kMaxInputs}) {
    std::vector<float> ones(in, 1.0f);
    std::vector<float> alternating(in);
    for (size_t i = 0; i < in; ++i) alternating[i] = i % 2 == 0 ? 1.0f : -1.0f;
    std::vector<float> weight = ones;
    weight.insert(weight.end(), alternating.begin(), alternating.end());
    std::vector<float> x = weight;
    for (const float value : ones) x.push_back(-value);
    const Int8Weight rounded(weight.data(), nullptr, 2, in);
    const auto expected = Reference(weight, {0, 0}, x, in);
    CHECK(expected[0] == static_cast<float>(255 * 127 * static_cast<int64_t>(in)) * ((1.0f / 255) * (1.0f / 127)));
    for (const Int8Path path : Int8Paths()) {
      CAPTURE(in, std::string(Int8PathName(path)));
      CHECK(Multiply(rounded, x, path) == expected);
    }
  }
}

TEST_CASE("An int8 product is near the exact one, whatever the scales of rows and outputs") {
  constexpr size_t kRows = 8, kOut = 24, kIn = 384;
  auto weight = Random(kOut * kIn, 4);
  auto x = Random(kRows * kIn, 5);
  for (size_t o = 0; o < kOut; ++o) {
    for (size_t i = 0; i < kIn; ++i) weight[o * kIn + i] *= std::pow(10.0f, static_cast<float>(o % 7) - 3);
  }
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kIn; ++i) x[row * kIn + i] *= std::pow(10.0f, 3 * static_cast<float>(row) - 12);
  }
  const auto y = Multiply(Int8Weight(weight.data(), nullptr, kOut, kIn), x, FastestInt8Path());
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t o = 0; o < kOut; ++o) {
      double exact = 0, row_square = 0, output_square = 0;
      for (size_t i = 0; i < kIn; ++i) {
        exact += double{x[row * kIn + i]} * weight[o * kIn + i];
        row_square += std::pow(double{x[row * kIn + i]}, 2);
        output_square += std::pow(double{weight[o * kIn + i]}, 2);
      }
      CAPTURE(row, o);
      // Both sides are off by up to half a step of some 3 / 127 standard deviations, of random sign: 0.7 % of a side's
      // length each; four times that is never reached.
      CHECK(std::abs(y[row * kOut + o] - exact) <=
            4 * 2 * 0.007 * std::sqrt(row_square * output_square / static_cast<double>(kIn)));
    }
  }
}

TEST_CASE("Rows and outputs of zeros, or of less than a float holds well, give the bias") {
  const std::vector<float> weight = {1, 2, 0, 0, 1e-42f, -1e-42f};
  const std::vector<float> bias = {5, 6, 7};
  const Int8Weight rounded(weight.data(), bias.data(), 3, 2);
  for (const Int8Path path : Int8Paths()) {
    CHECK(Multiply(rounded, {0, 0, 1e-42f, 1e-44f}, path) == std::vector<float>{5, 6, 7, 5, 6, 7});
    const auto y = Multiply(rounded, {1, 0}, path);
    CHECK(y[1] == 6);
    CHECK(y[2] == 7);
  }
}

TEST_CASE("A value that is not finite makes its row or its output NaN, and no other") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weight = {1, 2, 3, 4, inf, 0, -1, nan};
  const Int8Weight rounded(weight.data(), nullptr, 4, 2);
  for (const Int8Path path : Int8Paths()) {
    const auto y = Multiply(rounded, {1, 1, nan, 1, 2, -inf}, path);
    for (size_t i = 0; i < y.size(); ++i) {
      CAPTURE(i, y[i]);
      CHECK(std::isnan(y[i]) == (i > 1));
    }
  }
}

}  // namespace
}  // namespace tributary
