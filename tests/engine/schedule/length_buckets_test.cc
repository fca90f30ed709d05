#include "engine/schedule/length_buckets.h"

#include <set>

#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("a length class holds lengths within a factor of 1.5, and classes are in order of length") {
  for (uint64_t units = 1; units < 70000; ++units) {
    const uint32_t length_class = LengthClass(units);
    const uint64_t floor = LengthClassFloor(length_class);
    REQUIRE(floor <= units);
    REQUIRE(2 * units < 3 * floor + 1);
    REQUIRE(LengthClass(units + 1) >= length_class);
    REQUIRE(LengthClass(floor) == length_class);
  }
  CHECK(LengthClass(0) == 0);
  CHECK(LengthClass(UINT64_MAX) == 127);
}

TEST_CASE("token totals are rounded geometrically up to 128 and to multiples of 128 above") {
  const std::vector<std::pair<uint64_t, uint64_t>> table = {{0, 16},    {1, 16},    {16, 16},   {17, 20},   {20, 20},
                                                            {21, 24},   {32, 32},   {33, 40},   {65, 80},   {113, 128},
                                                            {128, 128}, {129, 256}, {256, 256}, {510, 512}, {513, 640}};
  for (const auto& [useful, computed] : table) {
    CAPTURE(useful);
    CHECK(RoundedTokenTotal(useful) == computed);
  }
}

TEST_CASE("token totals fall into few shapes, and up to 128 at most a quarter of the useful tokens is padding") {
  std::set<uint64_t> shapes;
  for (uint64_t useful = 1; useful <= 8192; ++useful) {
    const uint64_t computed = RoundedTokenTotal(useful);
    REQUIRE(computed >= useful);
    if (useful >= 16 && useful <= 128) REQUIRE(4 * computed <= 5 * useful);
    shapes.insert(computed);
  }
  CHECK(shapes.size() == 13 + 63);
}

}  // namespace
}  // namespace tributary
