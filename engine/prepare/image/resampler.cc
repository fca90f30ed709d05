#include "engine/prepare/image/resampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/prepare/image/rgb_image.h"

// The compiler makes one version per instruction set and the loader picks: without 32-bit vector multiplication (before
// SSE4.1) the passes are about three times slower. Sanitizers start before the loader's resolver may run.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define TRIBUTARY_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TRIBUTARY_VECTOR_CLONES
#endif

namespace tributary {
namespace {

constexpr int kWeightBits = 32 - 8 - 2;  // 8 for the pixel, 2 for overshoot and sign
constexpr int32_t kHalf = 1 << (kWeightBits - 1);
constexpr size_t kMaxBytes = size_t{64} << 20;

// Four 32-bit lanes: R, G, B and one that is thrown away.
using Lanes = int32_t __attribute__((vector_size(16)));
using ByteLanes = uint8_t __attribute__((vector_size(4)));

double Box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

double Bilinear(double x) { return std::max(1.0 - std::abs(x), 0.0); }

double Hamming(double x) {
  x = std::abs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54F + 0.46F * std::cos(x));  // Pillow has these two in single precision
}

double Bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

double Sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double Lanczos(double x) { return x >= -3.0 && x < 3.0 ? Sinc(x) * Sinc(x / 3) : 0.0; }

struct Filter {
  double (*weight)(double);
  double support;  // radius, in output pixels
};

Filter FilterOf(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kNearest:  // has a way of its own
    case ResizeFilter::kBox:
      return {.weight = Box, .support = 0.5};
    case ResizeFilter::kBilinear:
      return {.weight = Bilinear, .support = 1.0};
    case ResizeFilter::kHamming:
      return {.weight = Hamming, .support = 1.0};
    case ResizeFilter::kBicubic:
      break;
    case ResizeFilter::kLanczos:
      return {.weight = Lanczos, .support = 3.0};
  }
  return {.weight = Bicubic, .support = 2.0};
}

// The filter as wide as it has to be to see every source pixel.
double SupportOf(ResizeFilter filter, uint32_t in_side, uint32_t out_side) {
  return FilterOf(filter).support * std::max(static_cast<double>(in_side) / out_side, 1.0);
}

size_t TapsOf(ResizeFilter filter, uint32_t in_side, uint32_t out_side) {
  return static_cast<size_t>(std::ceil(SupportOf(filter, in_side, out_side))) * 2 + 1;
}

// Pillow 13's rule: what loses more than twice as many rows as columns loses the rows first.
bool VerticalFirst(const ResizePlan& plan) {
  const auto lost_rows = int64_t{plan.source.height} - plan.height;
  const auto lost_columns = int64_t{plan.source.width} - plan.width;
  return lost_rows > 0 && lost_rows > 2 * lost_columns;
}

inline uint8_t Clip(int32_t fixed) { return static_cast<uint8_t>(std::clamp(fixed >> kWeightBits, 0, 255)); }

// One row: out u8 [size, 3]; `row` begins with pixel `begin` of the source.
TRIBUTARY_VECTOR_CLONES
void ResizeRow(const uint8_t* row, uint32_t size, uint32_t begin, const uint32_t* first, const uint32_t* count,
               const int32_t* weights, size_t taps, uint8_t* out) {
  for (uint32_t i = 0; i < size; ++i, weights += taps, out += 3) {
    const uint8_t* pixel = row + size_t{first[i] - begin} * 3;
    Lanes sum = {kHalf, kHalf, kHalf, 0};
    for (uint32_t t = 0; t < count[i]; ++t, pixel += 3) {
      ByteLanes bytes;
      std::memcpy(&bytes, pixel, sizeof(bytes));
      sum += __builtin_convertvector(bytes, Lanes) * weights[t];
    }
    for (int c = 0; c < 3; ++c) out[c] = Clip(sum[c]);
  }
}

// One output row of `length` bytes out of `count` rows, `stride` bytes apart.
TRIBUTARY_VECTOR_CLONES
void BlendRows(const uint8_t* rows, size_t stride, size_t length, uint32_t count, const int32_t* weights,
               uint8_t* out) {
  constexpr size_t kBlock = 32;  // sums stay in registers
  size_t begin = 0;
  for (; begin + kBlock <= length; begin += kBlock) {
    int32_t sums[kBlock];
    for (int32_t& sum : sums) sum = kHalf;
    for (uint32_t t = 0; t < count; ++t) {
      const uint8_t* row = rows + t * stride + begin;
      for (size_t i = 0; i < kBlock; ++i) sums[i] += row[i] * weights[t];
    }
    for (size_t i = 0; i < kBlock; ++i) out[begin + i] = Clip(sums[i]);
  }
  for (; begin < length; ++begin) {
    int32_t sum = kHalf;
    for (uint32_t t = 0; t < count; ++t) sum += rows[t * stride + begin] * weights[t];
    out[begin] = Clip(sum);
  }
}

}  // namespace

void Resampler::Axis::Compute(ResizeFilter new_filter, uint32_t in, uint32_t out, uint32_t begin, uint32_t size) {
  if (Fits(new_filter, in, out, begin, size)) return;
  *this = {};  // fits nothing, should an allocation fail
  first.resize(size);
  count.resize(size);
  in_side = in;
  out_side = out;
  window_begin = begin;
  filter = new_filter;
  if (filter == ResizeFilter::kNearest) {
    ComputeNearest(size);
  } else {
    ComputeWeights(size);
  }
  read_begin = first.front();
  read_end = first.back() + count.back();
  window_size = size;
}

void Resampler::Axis::ComputeNearest(uint32_t size) {
  const double scale = static_cast<double>(in_side) / out_side;
  double position = scale * 0.5;
  // Added up step by step from the picture's edge: Pillow's own arithmetic.
  for (uint32_t i = 0; i < window_begin + size; ++i, position += scale) {
    if (i < window_begin) continue;
    first[i - window_begin] = std::min(static_cast<uint32_t>(position), in_side - 1);
    count[i - window_begin] = 1;
  }
}

void Resampler::Axis::ComputeWeights(uint32_t size) {
  const double scale = static_cast<double>(in_side) / out_side;
  const double filter_scale = std::max(scale, 1.0);
  const auto weight_at = FilterOf(filter).weight;
  const double support = SupportOf(filter, in_side, out_side);
  taps = TapsOf(filter, in_side, out_side);
  weights.assign(size * taps, 0);
  std::vector<double> exact(taps);
  constexpr double kHalfPixel = 0.5;
  for (uint32_t i = 0; i < size; ++i) {
    const double center = (window_begin + i + kHalfPixel) * scale;
    // Cut, not rounded, for negative values too: Pillow's own arithmetic.
    const int begin = std::max(static_cast<int>(center - support + kHalfPixel), 0);
    const int end = std::min(static_cast<int>(center + support + kHalfPixel), static_cast<int>(in_side));
    double total = 0.0;
    for (int x = begin; x < end; ++x) {
      // Multiplying by the inverse, as Pillow does: dividing rounds differently.
      exact[x - begin] = weight_at((x - center + kHalfPixel) * (1.0 / filter_scale));
      total += exact[x - begin];
    }
    first[i] = static_cast<uint32_t>(begin);
    count[i] = static_cast<uint32_t>(end - begin);
    for (int x = begin; x < end; ++x) {
      const double weight = (total != 0.0 ? exact[x - begin] / total : exact[x - begin]) * (1 << kWeightBits);
      weights[i * taps + (x - begin)] = static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
  }
}

absl::StatusOr<Rect> Resampler::Prepare(ResizeFilter filter, const ResizePlan& plan) {
  const Rect& window = plan.window;
  copy_ = plan.source.width == plan.width && plan.source.height == plan.height;
  window_ = window;
  if (copy_) return window;
  if (filter != ResizeFilter::kNearest) {
    vertical_first_ = VerticalFirst(plan);
    const uint64_t rows =
        (vertical_first_ ? uint64_t{plan.source.width} * window.height : uint64_t{plan.source.height} * window.width) *
        3;
    const uint64_t weights = (uint64_t{window.width} * TapsOf(filter, plan.source.width, plan.width) +
                              uint64_t{window.height} * TapsOf(filter, plan.source.height, plan.height)) *
                             sizeof(int32_t);
    if (rows + weights > kMaxBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "resizing ", plan.source.width, " x ", plan.source.height, " pixels to ", plan.width, " x ", plan.height,
          " would need ", rows + weights, " bytes in between, at most ", kMaxBytes, " are allowed"));
    }
  }
  x_.Compute(filter, plan.source.width, plan.width, window.left, window.width);
  y_.Compute(filter, plan.source.height, plan.height, window.top, window.height);
  return Rect{.left = x_.read_begin,
              .top = y_.read_begin,
              .width = x_.read_end - x_.read_begin,
              .height = y_.read_end - y_.read_begin};
}

void Resampler::Resize(const uint8_t* rgb, size_t stride, uint8_t* out, size_t out_stride) {
  const size_t row_bytes = size_t{window_.width} * 3;
  if (copy_) {
    for (uint32_t y = 0; y < window_.height; ++y) std::copy_n(rgb + y * stride, row_bytes, out + y * out_stride);
    return;
  }
  if (x_.filter == ResizeFilter::kNearest) {
    for (uint32_t y = 0; y < window_.height; ++y) {
      const uint8_t* row = rgb + (y_.first[y] - y_.read_begin) * stride;
      uint8_t* to = out + y * out_stride;
      for (uint32_t x = 0; x < window_.width; ++x)
        to = std::copy_n(row + size_t{x_.first[x] - x_.read_begin} * 3, 3, to);
    }
    return;
  }
  if (vertical_first_) return ResizeVerticalFirst(rgb, stride, out, out_stride);
  ResizeHorizontalFirst(rgb, stride, out, out_stride);
}

void Resampler::ResizeHorizontalFirst(const uint8_t* rgb, size_t stride, uint8_t* out, size_t out_stride) {
  const size_t row_bytes = size_t{window_.width} * 3;
  const uint32_t rows = y_.read_end - y_.read_begin;
  rows_.resize(rows * row_bytes);
  for (uint32_t y = 0; y < rows; ++y) {
    ResizeRow(rgb + y * stride, window_.width, x_.read_begin, x_.first.data(), x_.count.data(), x_.weights.data(),
              x_.taps, rows_.data() + y * row_bytes);
  }
  for (uint32_t y = 0; y < window_.height; ++y) {
    BlendRows(rows_.data() + (y_.first[y] - y_.read_begin) * row_bytes, row_bytes, row_bytes, y_.count[y],
              y_.weights.data() + y * y_.taps, out + y * out_stride);
  }
}

void Resampler::ResizeVerticalFirst(const uint8_t* rgb, size_t stride, uint8_t* out, size_t out_stride) {
  const size_t row_bytes = size_t{x_.read_end - x_.read_begin} * 3;
  rows_.resize(window_.height * row_bytes + kPixelTailBytes);
  for (uint32_t y = 0; y < window_.height; ++y) {
    BlendRows(rgb + (y_.first[y] - y_.read_begin) * stride, stride, row_bytes, y_.count[y],
              y_.weights.data() + y * y_.taps, rows_.data() + y * row_bytes);
  }
  for (uint32_t y = 0; y < window_.height; ++y) {
    ResizeRow(rows_.data() + y * row_bytes, window_.width, x_.read_begin, x_.first.data(), x_.count.data(),
              x_.weights.data(), x_.taps, out + y * out_stride);
  }
}

void Resampler::ShrinkTo(size_t bytes) {
  if (rows_.capacity() > bytes) rows_ = {};
  for (Axis* axis : {&x_, &y_}) {
    if (axis->weights.capacity() * sizeof(int32_t) > bytes) *axis = {};
  }
}

}  // namespace tributary
