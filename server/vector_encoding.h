// How the vectors of an answer are packed; the contract's enum Encoding defines each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tributary {

enum class Encoding : uint8_t { kFloat32, kFloat16, kInt8, kBinary };

// Bytes of the packed numbers of one vector.
size_t PackedBytes(Encoding encoding, size_t dimensions);

// Appends 1 byte a number and returns the scale. `values` are finite.
float PackInt8(std::span<const float> values, std::string* out);

// Appends 1 bit a number, from a new byte on.
void PackBinary(std::span<const float> values, std::string* out);

}  // namespace tributary
