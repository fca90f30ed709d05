#include "engine/libtorch/kernels/int8_weight.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "engine/libtorch/kernels/int8_weight_isa.h"
#include "engine/libtorch/kernels/processor.h"

namespace tributary {
namespace {

constexpr size_t kCacheLine = 64;
constexpr float kLargestWeight = 127;

size_t RoundUp(size_t value, size_t step) { return (value + step - 1) / step * step; }

// The first place in `memory` that begins a cache line.
template <typename Byte>
size_t FirstCacheLine(const Byte* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return RoundUp(address, kCacheLine) - address;
}

// Of one output. Returns the scale.
float RoundOutput(const float* values, size_t count, int8_t* integers) {
  float largest = 0;
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(values[i]);
    largest = std::max(largest, std::abs(values[i]));
  }
  const float scale = largest / kLargestWeight;
  if (!finite || scale < std::numeric_limits<float>::min()) {
    std::fill(integers, integers + count, int8_t{0});
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float per_step = 1 / scale;
  for (size_t i = 0; i < count; ++i) integers[i] = static_cast<int8_t>(std::nearbyint(values[i] * per_step));
  return scale;
}

const Int8Form& FormOf(Int8Path path) {
  switch (path) {
    case Int8Path::kPlain:
      break;
    case Int8Path::kAvx2:
      return int8_avx2::kForm;
    case Int8Path::kAvxVnni:
      return int8_avx_vnni::kForm;
    case Int8Path::kAvx512Vnni:
      return int8_avx512_vnni::kForm;
  }
  return int8_plain::kForm;
}

std::vector<Int8Path> FindPaths() {
  const Processor& has = ThisProcessor();
  std::vector<Int8Path> paths = {Int8Path::kPlain};
  if (has.avx2) paths.push_back(Int8Path::kAvx2);
  if (has.avx_vnni) paths.push_back(Int8Path::kAvxVnni);
  if (has.avx512_vnni) paths.push_back(Int8Path::kAvx512Vnni);
  return paths;
}

}  // namespace

std::string_view Int8PathName(Int8Path path) {
  switch (path) {
    case Int8Path::kPlain:
      break;
    case Int8Path::kAvx2:
      return "avx2";
    case Int8Path::kAvxVnni:
      return "avx-vnni";
    case Int8Path::kAvx512Vnni:
      return "avx512-vnni";
  }
  return "plain";
}

const std::vector<Int8Path>& Int8Paths() {
  static const std::vector<Int8Path> paths = FindPaths();
  return paths;
}

Int8Weight::Int8Weight(const float* weight, const float* bias, size_t out, size_t in)
    : out_(out),
      in_(in),
      values_(RoundUp(out, kInt8PanelOutputs) * Int8Groups(in) * kInt8Group + kCacheLine),
      values_begin_(FirstCacheLine(values_.data())),
      scales_(RoundUp(out, kInt8PanelOutputs)),
      bias_(RoundUp(out, kInt8PanelOutputs)),
      integers_(RoundUp(out, kInt8PanelOutputs)) {
  assert(in <= kMaxInputs);
  std::vector<int8_t> integers(in);
  for (size_t output = 0; output < out; ++output) {
    scales_[output] = RoundOutput(weight + output * in, in, integers.data());
    const size_t panel = output / kInt8PanelOutputs * kInt8PanelOutputs;
    int8_t* const first =
        values_.data() + values_begin_ + panel * Int8Groups(in) * kInt8Group + output % kInt8PanelOutputs * kInt8Group;
    for (size_t i = 0; i < in; ++i) {
      first[i / kInt8Group * kInt8Group * kInt8PanelOutputs + i % kInt8Group] = integers[i];
      integers_[output] += integers[i];
    }
  }
  if (bias != nullptr) std::copy(bias, bias + out, bias_.begin());
}

void Int8Weight::Multiply(const float* x, size_t rows, float* y, const Int8Finish& finish, Int8Path path) const {
  const Int8Form& form = FormOf(path);
  // Of the thread, not of the call: a lane's thread runs one product after the other.
  static thread_local std::vector<std::byte> memory;
  const size_t needed = form.scratch_bytes(rows, in_) + kCacheLine;
  if (memory.size() < needed) memory.resize(needed);
  form.multiply({.x = x,
                 .rows = rows,
                 .in = in_,
                 .out = out_,
                 .values = values_.data() + values_begin_,
                 .scales = scales_.data(),
                 .bias = bias_.data(),
                 .integers = integers_.data(),
                 .finish = finish,
                 .y = y},
                memory.data() + FirstCacheLine(memory.data()));
}

}  // namespace tributary
