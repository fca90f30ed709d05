// Packs float32 vectors as IEEE 754 binary16, the compact encoding of answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tributary {

// The bits of `value` as binary16, rounded to nearest, ties to even; beyond 65504 + half a step: infinity.
uint16_t ToFloat16Bits(float value);

// Appends 2 bytes a number, little endian. False: a finite number became infinite (`out` holds it all the same).
bool PackFloat16(std::span<const float> values, std::string* out);

}  // namespace tributary
