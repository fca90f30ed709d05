#include "server/vector_encoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

// What NumPy 2 gives for these numbers: numpy.packbits(v > 0), which is sentence-transformers' "ubinary"; and with
// scale = max|v| / 127 in float32, rint(v / scale).
const std::vector<float> kNumbers = {0.001F,  0.299F,  -0.274F, -0.891F, -0.455F, 0.0F,   0.06F,
                                     1.34F,   -0.492F, -0.62F,  0.49F,   0.357F,  0.105F, -0.93F,
                                     -0.029F, 0.695F,  -1.344F, 0.458F,  -1.901F, -1.29F, 1.842F};
const std::string kNumpyBits("\xC3\x39\x48", 3);
const std::vector<int> kNumpyInt8 = {0,  20, -18, -60, -30, 0,   4,  90,   -33, -41, 33,
                                     24, 7,  -62, -2,  46,  -90, 31, -127, -86, 123};

std::vector<int> Int8Of(const std::string& bytes) {
  std::vector<int> numbers;
  for (const char byte : bytes) numbers.push_back(static_cast<int8_t>(byte));
  return numbers;
}

TEST_CASE("int8 and binary are what NumPy gives, number by number") {
  std::string bytes;
  const float scale = PackInt8(kNumbers, &bytes);
  CHECK(scale == 1.901F / 127);
  CHECK(Int8Of(bytes) == kNumpyInt8);
  std::string bits;
  PackBinary(kNumbers, &bits);
  CHECK(bits == kNumpyBits);
}

TEST_CASE("each vector begins at a new byte, behind what is there") {
  std::string bits;
  PackBinary(std::vector<float>{1, -1, 1}, &bits);
  PackBinary(std::vector<float>{-1, 1}, &bits);
  CHECK(bits == "\xA0\x40");
  std::string bytes;
  PackInt8(std::vector<float>{1}, &bytes);
  PackInt8(std::vector<float>{-2, 1}, &bytes);
  CHECK(Int8Of(bytes) == std::vector<int>{127, -127, 64});  // 63.5 goes to the even one
}

TEST_CASE("an int8 number is at most half a scale away from its own, at any magnitude") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const float magnitude : {1e-44F, 1e-38F, 1e-30F, 1.0F, 1e30F, 3e37F}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> numbers(97);
      for (float& number : numbers) number = normal(random) * magnitude;
      std::string bytes;
      const double scale = PackInt8(numbers, &bytes);
      const std::vector<int> packed = Int8Of(bytes);
      for (size_t i = 0; i < numbers.size(); ++i) {
        REQUIRE(std::abs(packed[i]) <= 127);
        REQUIRE(std::abs(packed[i] * scale - numbers[i]) <= scale * 0.50005);  // 1e-4 of the half: float32's rounding
      }
    }
  }
}

TEST_CASE("halfway between two integers the even one is taken, on both sides of zero") {
  std::vector<float> numbers = {127};  // so that the scale is 1
  std::vector<int> expected = {127};
  for (int i = -126; i < 126; ++i) {
    numbers.push_back(static_cast<float>(i) + 0.5F);
    expected.push_back(i % 2 == 0 ? i : i + 1);
  }
  std::string bytes;
  CHECK(PackInt8(numbers, &bytes) == 1.0F);
  CHECK(Int8Of(bytes) == expected);
}

TEST_CASE("a vector of zeros has scale 0, and the largest numbers do not overflow") {
  std::string bytes;
  CHECK(PackInt8(std::vector<float>(3, 0.0F), &bytes) == 0);
  CHECK(bytes == std::string(3, '\0'));
  bytes.clear();
  constexpr float kLargest = std::numeric_limits<float>::max();
  CHECK(std::isfinite(PackInt8(std::vector<float>{kLargest, -kLargest}, &bytes)));
  CHECK(Int8Of(bytes) == std::vector<int>{127, -127});
}

TEST_CASE("packed sizes are those of the packed vectors") {
  for (const size_t dimensions : {1U, 7U, 8U, 9U, 384U}) {
    const std::vector<float> numbers(dimensions, 1.0F);
    std::string bits;
    PackBinary(numbers, &bits);
    std::string bytes;
    PackInt8(numbers, &bytes);
    CHECK(PackedBytes(Encoding::kBinary, dimensions) == bits.size());
    CHECK(PackedBytes(Encoding::kInt8, dimensions) == bytes.size());
    CHECK(PackedBytes(Encoding::kFloat16, dimensions) == 2 * dimensions);
    CHECK(PackedBytes(Encoding::kFloat32, dimensions) == 4 * dimensions);
  }
}

}  // namespace
}  // namespace tributary
