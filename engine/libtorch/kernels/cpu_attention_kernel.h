// The attention kernel itself, for one width of vectors. Included by one source an instruction set, each compiled with
// its own flags, within a namespace of its own: nothing here but the two functions at the end may be called by another.
// Defines: kLanes (floats a register) must be set before by the including source.
//
// A head of a sequence of L tokens is two products around a softmax. Both run in one micro-kernel: kRows rows of A,
// broadcast element by element, times a panel of B that is kPanel columns wide and contiguous. Keys are laid out as
// panels [D, kPanel] of kPanel keys, values as panels [L, kPanel] of kPanel dimensions, once for all queries of the
// sequence; scores of kRows queries stay in cache between the products.

#include "engine/libtorch/kernels/cpu_vector.h"

// 12 accumulators, 2 columns and a broadcast value fill the 16 registers of AVX2.
constexpr int64_t kRows = 6;
constexpr int64_t kPanel = 2 * kLanes;

// c[rows, kPanel] = a[rows, depth] * b[depth, kPanel]
template <int64_t rows>
inline void Multiply(const float* a, int64_t a_stride, const float* b, int64_t depth, float* c, int64_t c_stride) {
  Vector sums[rows][2] = {};
  for (int64_t k = 0; k < depth; ++k, b += kPanel) {
    const Vector left = Load(b);
    const Vector right = Load(b + kLanes);
#pragma GCC unroll 6
    for (int64_t i = 0; i < rows; ++i) {
      const Vector value = Broadcast(a[i * a_stride + k]);
      sums[i][0] += value * left;
      sums[i][1] += value * right;
    }
  }
#pragma GCC unroll 6
  for (int64_t i = 0; i < rows; ++i) {
    Store(sums[i][0], c + i * c_stride);
    Store(sums[i][1], c + i * c_stride + kLanes);
  }
}

inline void MultiplyRows(int64_t rows, const float* a, int64_t a_stride, const float* b, int64_t depth, float* c,
                         int64_t c_stride) {
  switch (rows) {
    case 6:
      return Multiply<6>(a, a_stride, b, depth, c, c_stride);
    case 5:
      return Multiply<5>(a, a_stride, b, depth, c, c_stride);
    case 4:
      return Multiply<4>(a, a_stride, b, depth, c, c_stride);
    case 3:
      return Multiply<3>(a, a_stride, b, depth, c, c_stride);
    case 2:
      return Multiply<2>(a, a_stride, b, depth, c, c_stride);
    default:
      return Multiply<1>(a, a_stride, b, depth, c, c_stride);
  }
}

// 8 rows of 8 floats, turned: to[j * to_stride + i] = from[i * from_stride + j].
inline void Transpose8(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  using V8 = float __attribute__((vector_size(32)));
  V8 r[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) __builtin_memcpy(&r[i], from + i * from_stride, 32);
  V8 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  V8 u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = __builtin_shufflevector(t[4 * i], t[4 * i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    u[4 * i + 1] = __builtin_shufflevector(t[4 * i], t[4 * i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    u[4 * i + 2] = __builtin_shufflevector(t[4 * i + 1], t[4 * i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    u[4 * i + 3] = __builtin_shufflevector(t[4 * i + 1], t[4 * i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const V8 low = __builtin_shufflevector(u[i], u[4 + i], 0, 1, 2, 3, 8, 9, 10, 11);
    const V8 high = __builtin_shufflevector(u[i], u[4 + i], 4, 5, 6, 7, 12, 13, 14, 15);
    __builtin_memcpy(to + i * to_stride, &low, 32);
    __builtin_memcpy(to + (4 + i) * to_stride, &high, 32);
  }
}

// Keys [length, size] as panels [size, kPanel]; columns past the last key are zero.
inline void PackKeys(const float* key, int64_t stride, int64_t length, int64_t size, float* panels) {
  for (int64_t first = 0; first < length; first += kPanel, panels += size * kPanel) {
    const int64_t count = length - first < kPanel ? length - first : kPanel;
    int64_t column = 0;
    for (; column + 8 <= count; column += 8) {
      const float* rows = key + (first + column) * stride;
      int64_t i = 0;
      for (; i + 8 <= size; i += 8) Transpose8(rows + i, stride, panels + i * kPanel + column, kPanel);
      for (; i < size; ++i) {
        for (int64_t j = 0; j < 8; ++j) panels[i * kPanel + column + j] = rows[j * stride + i];
      }
    }
    for (int64_t i = 0; i < size && column < kPanel; ++i) {
      int64_t j = column;
      for (; j < count; ++j) panels[i * kPanel + j] = key[(first + j) * stride + i];
      for (; j < kPanel; ++j) panels[i * kPanel + j] = 0;
    }
  }
}

// Values [length, size] as panels [length, kPanel]; columns past the last dimension are zero.
inline void PackValues(const float* value, int64_t stride, int64_t length, int64_t size, float* panels) {
  for (int64_t first = 0; first < size; first += kPanel) {
    const int64_t count = size - first < kPanel ? size - first : kPanel;
    for (int64_t t = 0; t < length; ++t, panels += kPanel) {
      const float* row = value + t * stride + first;
      if (count == kPanel) {
        Store(Load(row), panels);
        Store(Load(row + kLanes), panels + kLanes);
      } else {
        for (int64_t i = 0; i < kPanel; ++i) panels[i] = i < count ? row[i] : 0;
      }
    }
  }
}

// Scores [begin, end) become e^(scale * (score - largest)), all others of the row in [0, width) zero. Their sum.
// width: a multiple of kLanes.
inline float SoftmaxRow(float* scores, int64_t begin, int64_t end, int64_t width, float scale) {
  const Integers lane = [] {
    Integers order{};
    for (int64_t i = 0; i < kLanes; ++i) order[i] = static_cast<int32_t>(i);
    return order;
  }();
  const auto inside = [&](int64_t at) {
    const Integers index = lane + static_cast<int32_t>(at);
    return (index >= static_cast<int32_t>(begin)) & (index < static_cast<int32_t>(end));
  };
  const int64_t first = begin / kLanes * kLanes;
  const int64_t last = (end + kLanes - 1) / kLanes * kLanes;
  const Vector none = Broadcast(-3.0e38f);
  Vector largest = none;
  for (int64_t at = first; at < last; at += kLanes) {
    const Vector score = Load(scores + at);
    const bool whole = at >= begin && at + kLanes <= end;
    largest = Max(largest, whole ? score : (inside(at) ? score : none));
  }
  float top = largest[0];
  for (int64_t i = 1; i < kLanes; ++i) top = largest[i] > top ? largest[i] : top;
  Vector sums{};
  for (int64_t at = 0; at < first; at += kLanes) Store(Vector{}, scores + at);
  for (int64_t at = first; at < last; at += kLanes) {
    Vector weight = Exp((Load(scores + at) - top) * scale);
    if (at < begin || at + kLanes > end) weight = inside(at) ? weight : Vector{};
    sums += weight;
    Store(weight, scores + at);
  }
  for (int64_t at = last; at < width; at += kLanes) Store(Vector{}, scores + at);
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += sums[i];
  return sum;
}

inline int64_t RoundUp(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

// See cpu_attention_isa.h.
int64_t AttentionScratchFloats(int64_t length, const AttentionShape& shape) {
  const int64_t keys = RoundUp(length, kPanel);
  const int64_t dimensions = RoundUp(shape.head_size, kPanel);
  return keys * shape.head_size + length * dimensions + kRows * keys + kRows * kPanel;
}

// See cpu_attention_isa.h.
void AttendSequence(const AttentionRows& rows, int64_t length, const AttentionShape& shape, float* scratch) {
  const int64_t size = shape.head_size;
  const int64_t width = RoundUp(length, kPanel);
  const int64_t shared = shape.heads / shape.key_value_heads;
  float* const scores = scratch;
  float* const tile = scores + kRows * width;
  float* const keys = tile + kRows * kPanel;
  float* const values = keys + width * size;
  for (int64_t head = 0; head < shape.heads; ++head) {
    if (head % shared == 0) {
      PackKeys(rows.key + head / shared * size, rows.key_stride, length, size, keys);
      PackValues(rows.value + head / shared * size, rows.value_stride, length, size, values);
    }
    for (int64_t first = 0; first < length; first += kRows) {
      const int64_t count = length - first < kRows ? length - first : kRows;
      // What any of these queries sees, in whole panels of keys.
      const int64_t seen_begin = first - shape.before > 0 ? (first - shape.before) / kPanel * kPanel : 0;
      int64_t seen_end = first + count + shape.after;
      seen_end = seen_end < length ? RoundUp(seen_end, kPanel) : width;
      const float* const query = rows.query + first * rows.query_stride + head * size;
      for (int64_t at = seen_begin; at < seen_end; at += kPanel) {
        MultiplyRows(count, query, rows.query_stride, keys + at * size, size, scores + at, width);
      }
      float factors[kRows];
      for (int64_t i = 0; i < count; ++i) {
        const int64_t token = first + i;
        const int64_t begin = token - shape.before > seen_begin ? token - shape.before : seen_begin;
        const int64_t end = token + shape.after + 1 < length ? token + shape.after + 1 : length;
        float* const row = scores + i * width + seen_begin;
        factors[i] = 1 / SoftmaxRow(row, begin - seen_begin, end - seen_begin, seen_end - seen_begin, shape.scale);
      }
      const int64_t depth = (seen_end < length ? seen_end : length) - seen_begin;
      for (int64_t column = 0; column < size; column += kPanel) {
        MultiplyRows(count, scores + seen_begin, width, values + column * length + seen_begin * kPanel, depth, tile,
                     kPanel);
        const int64_t columns = size - column < kPanel ? size - column : kPanel;
        for (int64_t i = 0; i < count; ++i) {
          float* const to = rows.context + (first + i) * rows.context_stride + head * size + column;
          if (columns == kPanel) {
            Store(Load(tile + i * kPanel) * factors[i], to);
            Store(Load(tile + i * kPanel + kLanes) * factors[i], to + kLanes);
          } else {
            for (int64_t j = 0; j < columns; ++j) to[j] = tile[i * kPanel + j] * factors[i];
          }
        }
      }
    }
  }
}
