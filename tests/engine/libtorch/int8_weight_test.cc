#include "engine/libtorch/kernels/int8_weight.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

// With bit patterns: not-a-number is what it is, and 0 is not -0.
std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::isnan(value) ? 0x7fc00000 : std::bit_cast<uint32_t>(value));
  return bits;
}

TEST_CASE(
    "Every path gives the plain one's bits, whatever the shape, with rows of zeros, huge values and NaN between") {
  const float huge = std::numeric_limits<float>::max();
  for (const size_t in : {1, 3, 4, 5, 63, 64, 66, 130}) {
    for (const size_t out : {1, 7, 15, 16, 17, 31, 32, 33, 65}) {
      const Int8Weight weight(Random(out * in, 1).data(), Random(out, 2).data(), out, in);
      for (size_t rows = 1; rows <= 33; ++rows) {
        auto x = Random(rows * in, static_cast<uint32_t>(rows));
        for (size_t row = 0; row < rows; ++row) {
          if (row % 7 == 2) std::fill_n(x.begin() + static_cast<ptrdiff_t>(row * in), in, 0.0f);
          if (row % 7 == 4) x[row * in + row % in] = row % 2 == 0 ? huge : -huge;
          if (row % 7 == 6) x[row * in + row % in] = std::numeric_limits<float>::quiet_NaN();
        }
        const auto other = Random(rows * out, 4);
        for (const Int8Finish& finish : {Int8Finish{}, Int8Finish{.activation = Activation::kRelu},
                                         Int8Finish{.add = other.data()}, Int8Finish{.factor = other.data()}}) {
          std::vector<float> plain(rows * out);
          weight.Multiply(x.data(), rows, plain.data(), finish, Int8Path::kPlain);
          for (size_t i = 0; i < plain.size(); ++i) {
            if ((i / out % 7 == 6) != std::isnan(plain[i])) FAIL("row " << i / out << " of " << rows);
          }
          for (const Int8Path path : Int8Paths()) {
            std::vector<float> y(rows * out);
            weight.Multiply(x.data(), rows, y.data(), finish, path);
            if (Bits(y) != Bits(plain)) FAIL(Int8PathName(path) << ": " << rows << " x " << in << " x " << out);
          }
        }
      }
    }
  }
}

TEST_CASE("Rows that fill several blocks, of few inputs or of many, are each multiplied once") {
  struct Shape {
    size_t rows, out, in;
  };
  for (const auto& [rows, out, in] : {Shape{401, 33, 5}, {65, 35, 3072}, {27, 33, 8191}}) {
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

double Exact(Activation activation, double x) {
  constexpr double kPi = 3.14159265358979323846;
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return 0;
}

TEST_CASE("An activation is within 1e-5 of its function, over its bend and far from it") {
  std::vector<float> values;
  for (int i = -24000; i <= 24000; ++i) values.push_back(static_cast<float>(i) / 1000);
  for (const float magnitude : {0.0f, 1e-30f, 50.0f, 86.9f, 87.1f, 1000.0f, 1e30f}) {
    values.push_back(magnitude);
    values.push_back(-magnitude);
  }
  // The product is 0: the activation gets the bias.
  const Int8Weight weight(std::vector<float>(values.size()).data(), values.data(), values.size(), 1);
  for (const auto activation :
       {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
    for (const Int8Path path : Int8Paths()) {
      CAPTURE(static_cast<int>(activation), std::string(Int8PathName(path)));
      std::vector<float> y(values.size());
      const float x = 1;
      weight.Multiply(&x, 1, y.data(), {.activation = activation}, path);
      double worst = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        // A float of 24 is 1e-6 from the next one; beyond it the functions are x or 0.
        const double error = std::abs(y[i] - Exact(activation, values[i]));
        worst = std::max(worst, error / std::max(1.0, 1e-2 * std::abs(double{values[i]})));
      }
      CHECK(worst < (activation == Activation::kNone || activation == Activation::kRelu ? 1e-30 : 1e-5));
    }
  }
}

TEST_CASE("A value that is not finite stays so through every activation") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> bias = {std::numeric_limits<float>::quiet_NaN(), inf, 1};
  const std::vector<float> zeros(3);
  const Int8Weight weight(zeros.data(), bias.data(), 3, 1);
  for (const auto activation :
       {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
    for (const Int8Path path : Int8Paths()) {
      CAPTURE(static_cast<int>(activation), std::string(Int8PathName(path)));
      const std::vector<float> x = {1, inf};
      std::vector<float> y(6);
      weight.Multiply(x.data(), 2, y.data(), {.activation = activation}, path);
      CHECK(std::isnan(y[0]));
      CHECK(y[1] == inf);
      CHECK(std::isfinite(y[2]));
      for (size_t i = 3; i < 6; ++i) CHECK(std::isnan(y[i]));
    }
  }
}

TEST_CASE("A product is added to, or multiplied with, what is there, in place too") {
  constexpr size_t kRows = 13, kOut = 45, kIn = 70;
  const Int8Weight weight(Random(kOut * kIn, 1).data(), Random(kOut, 2).data(), kOut, kIn);
  const auto x = Random(kRows * kIn, 3);
  const auto other = Random(kRows * kOut, 4);
  for (const Int8Path path : Int8Paths()) {
    CAPTURE(std::string(Int8PathName(path)));
    const auto product = Multiply(weight, x, path);
    std::vector<float> sum(product.size()), scaled(product.size());
    for (size_t i = 0; i < product.size(); ++i) {
      sum[i] = product[i] + other[i];
      scaled[i] = product[i] * other[i];
    }
    auto y = other;
    weight.Multiply(x.data(), kRows, y.data(), {.add = y.data()}, path);
    CHECK(y == sum);
    y = other;
    weight.Multiply(x.data(), kRows, y.data(), {.factor = y.data()}, path);
    CHECK(y == scaled);
  }
}

}  // namespace
}  // namespace tributary
