// Which instructions the kernels of this folder may use.
#pragma once

namespace tributary {

// What the processor and its operating system have, less what ATEN_CPU_CAPABILITY takes away (LibTorch's own switch:
// `default` leaves none of these, `avx2` those of 256 bits): one switch holds LibTorch and our kernels to the same set.
struct Processor {
  bool avx2 = false;    // with FMA
  bool avx512 = false;  // F, DQ, BW, VL
  bool avx_vnni = false;
  bool avx512_vnni = false;  // with avx512
};

// Asked once.
const Processor& ThisProcessor();

}  // namespace tributary
