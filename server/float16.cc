#include "server/float16.h"

#include <bit>
#include <cmath>

namespace tributary {

uint16_t ToFloat16Bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;  // NaN, quiet
  // 65520, half a step above the largest binary16, and all beyond it.
  if (magnitude >= 0x477FF000) return sign | 0x7C00;
  if (magnitude < 0x38800000) {
    // Below 2^-14 binary16 has a fixed step of 2^-24: adding 0.5 makes float32's last bit that step, so that the
    // addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F));
  }
  // Re-bias the exponent from 127 to 15 and round away 13 bits: half a step less one, plus one where the kept part is
  // odd.
  const uint32_t odd = (magnitude >> 13) & 1;
  const uint32_t rounded = magnitude - (uint32_t{127 - 15} << 23) + 0xFFF + odd;
  return sign | static_cast<uint16_t>(rounded >> 13);
}

bool PackFloat16(std::span<const float> values, std::string* out) {
  out->reserve(out->size() + 2 * values.size());
  bool fits = true;
  for (const float value : values) {
    const uint16_t half = ToFloat16Bits(value);
    if ((half & 0x7C00) == 0x7C00 && std::isfinite(value)) fits = false;
    out->push_back(static_cast<char>(half & 0xFF));
    out->push_back(static_cast<char>(half >> 8));
  }
  return fits;
}

}  // namespace tributary
