#include "server/vector_encoding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tributary {
namespace {

constexpr float kMaxInt8 = 127;
// 1.5 * 2^23: from there on binary32 has no fractions, so that adding it rounds to an integer, ties to even. The
// compiler turns it into vector code, which it does not for std::nearbyint. Holds for |x| < 2^22.
constexpr float kRounder = 12582912;

float RoundToInteger(float x) { return (x + kRounder) - kRounder; }

}  // namespace

size_t PackedBytes(Encoding encoding, size_t dimensions) {
  switch (encoding) {
    case Encoding::kFloat32:
      return 4 * dimensions;
    case Encoding::kFloat16:
      return 2 * dimensions;
    case Encoding::kInt8:
      return dimensions;
    case Encoding::kBinary:
      return (dimensions + 7) / 8;
  }
  return 0;
}

float PackInt8(std::span<const float> values, std::string* out) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  const size_t begin = out->size();
  out->resize(begin + values.size());  // zeros
  if (largest == 0) return 0;
  // Below the smallest normal number the scale itself would be rounded coarsely, and the stated error would not hold.
  const float scale = std::max(largest / kMaxInt8, std::numeric_limits<float>::min());
  for (size_t i = 0; i < values.size(); ++i) {
    const float rounded = std::clamp(RoundToInteger(values[i] / scale), -kMaxInt8, kMaxInt8);
    (*out)[begin + i] = static_cast<char>(static_cast<int8_t>(rounded));
  }
  return scale;
}

void PackBinary(std::span<const float> values, std::string* out) {
  const size_t begin = out->size();
  out->resize(begin + PackedBytes(Encoding::kBinary, values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > 0) (*out)[begin + i / 8] = static_cast<char>((*out)[begin + i / 8] | (0x80 >> (i % 8)));
  }
}

}  // namespace tributary
