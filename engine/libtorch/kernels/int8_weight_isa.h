// The int8 product's forms, one an instruction set. Internal to kernels/int8_weight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/libtorch/kernels/int8_weight.h"

namespace tributary {

// Outputs whose weights lie together: two registers of sums of AVX-512, so that its 32 registers hold 12 rows of them.
constexpr size_t kInt8PanelOutputs = 32;
// Inputs whose products VNNI sums at once.
constexpr size_t kInt8Group = 4;

constexpr size_t Int8Groups(size_t in) { return (in + kInt8Group - 1) / kInt8Group; }

// One call of Int8Weight::Multiply; see there.
struct Int8Product {
  const float* x;
  size_t rows;
  size_t in;
  size_t out;
  const int8_t* values;     // from here on by panels, see Int8Weight
  const float* scales;      // [panels * kInt8PanelOutputs]
  const float* bias;        // as scales
  const int32_t* integers;  // as scales
  Int8Finish finish;
  float* y;
};

struct Int8Form {
  // Bytes MultiplyInt8 works in, at a multiple of 64.
  size_t (*scratch_bytes)(size_t rows, size_t in);
  void (*multiply)(const Int8Product& product, std::byte* scratch);
};

namespace int8_plain {
extern const Int8Form kForm;
}
namespace int8_avx2 {
extern const Int8Form kForm;
}
namespace int8_avx_vnni {
extern const Int8Form kForm;
}
namespace int8_avx512_vnni {
extern const Int8Form kForm;
}

}  // namespace tributary
