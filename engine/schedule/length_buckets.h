// Lengths sorted into classes, and token totals rounded to the few shapes that the arithmetic runs on. Pure; used by
// the waiting set and by text encoders.
#pragma once

#include <cstdint>

namespace tributary {

// Length class of an item: two geometric steps an octave (1, 2, 3, 4, 6, 8, 12, 16, ...), so that items of one class
// differ by less than a factor of 1.5: attention over a group of nearly equal lengths is cheaper.
uint32_t LengthClass(uint64_t units);
// The smallest length of a class. Units: tokens or pixels.
uint64_t LengthClassFloor(uint32_t length_class);

// What a packed batch of `useful_tokens` is padded to, >= useful_tokens. oneDNN makes one primitive per shape, so
// ragged totals cost more than padding does (measured: 305 -> 637 short texts a second on one core). Up to 128 four
// geometric steps an octave from 16 (16, 20, 24, 28, 32, 40, ...), at most a quarter of padding; above 128 multiples of
// 128.
uint64_t RoundedTokenTotal(uint64_t useful_tokens);

}  // namespace tributary
