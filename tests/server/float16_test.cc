#include "server/float16.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

// The value of binary16 bits, from the definition.
double FromBits(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST_CASE("every binary16 number comes back from its float32 unchanged") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = FromBits(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    REQUIRE(ToFloat16Bits(static_cast<float>(value)) == bits);
  }
}

TEST_CASE("halfway between two binary16 numbers the even one is taken, and beside it the nearer one") {
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {  // neighbours of one sign, up to the largest finite number
    const double low = FromBits(static_cast<uint16_t>(bits));
    const double high = FromBits(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: float32 has 13 more bits
    REQUIRE(ToFloat16Bits(middle) == (bits % 2 == 0 ? bits : bits + 1));
    REQUIRE(ToFloat16Bits(std::nextafter(middle, 0.0F)) == bits);
    REQUIRE(ToFloat16Bits(std::nextafter(middle, INFINITY)) == bits + 1);
    REQUIRE(ToFloat16Bits(-middle) == (0x8000 | (bits % 2 == 0 ? bits : bits + 1)));
  }
}

TEST_CASE("what is beyond binary16 becomes infinite, and NaN stays NaN") {
  CHECK(ToFloat16Bits(65504.0F) == 0x7BFF);
  CHECK(ToFloat16Bits(65519.996F) == 0x7BFF);
  CHECK(ToFloat16Bits(65520.0F) == 0x7C00);
  CHECK(ToFloat16Bits(-INFINITY) == 0xFC00);
  CHECK(ToFloat16Bits(std::numeric_limits<float>::max()) == 0x7C00);
  CHECK((ToFloat16Bits(NAN) & 0x7FFF) > 0x7C00);
}

TEST_CASE("a vector is packed little endian, and packing tells when a number does not fit") {
  std::string packed;
  CHECK(PackFloat16(std::vector<float>{1.0F, -2.0F}, &packed));
  CHECK(packed == std::string("\x00\x3C\x00\xC0", 4));
  CHECK_FALSE(PackFloat16(std::vector<float>{70000.0F}, &packed));
}

}  // namespace
}  // namespace tributary
