#include "engine/schedule/length_buckets.h"

#include <algorithm>
#include <bit>

namespace tributary {

uint32_t LengthClass(uint64_t units) {
  if (units <= 1) return 0;
  const auto octave = static_cast<uint32_t>(std::bit_width(units) - 1);
  const bool upper_half = (units >> (octave - 1)) & 1;
  return 2 * octave + (upper_half ? 1 : 0);
}

uint64_t LengthClassFloor(uint32_t length_class) {
  const uint64_t octave = uint64_t{1} << (length_class / 2);
  return length_class % 2 == 0 ? octave : octave + octave / 2;
}

uint64_t RoundedTokenTotal(uint64_t useful_tokens) {
  constexpr uint64_t kSmallest = 16;
  constexpr uint64_t kStep = 128;
  if (useful_tokens <= kSmallest) return kSmallest;
  const uint64_t step = useful_tokens > kStep ? kStep : std::bit_floor(useful_tokens - 1) / 4;
  return (useful_tokens + step - 1) & ~(step - 1);  // step is a power of two
}

}  // namespace tributary
