// The int8 product but for its innermost loop, for one instruction set. Included by one source an instruction set, each
// compiled with its own flags, within a namespace of its own: nothing here but kForm may be used by another. Sums and
// products of floats must not be contracted (-ffp-contract=off): all forms are to round alike.
// Must be defined before by the including source:
// - kLanes: floats a register
// - MultiplyAdd(a, b, c): a * b + c, of floats
// - kTileRows: rows SumTile takes at most
// - kInputBytes: bytes an input takes once rounded
// - StoreInputs(integers, to): kLanes inputs the way SumTile reads them; 0..255, or above, which is to become 255
// - SumTile(rows, x, stride, panel, groups, sums): sums int32 [rows, kInt8PanelOutputs], over all groups, of one panel
//   and `rows` rows of inputs, `stride` bytes apart
//
// Rows are rounded in blocks, whose integers stay in the L2 cache; each panel of the weight is then run over the block,
// tile after tile, and read from memory once a block. A tile's sums are finished (scaled, biased, activated or joined
// with what is already there) right behind it, while they are in the L1 cache.

constexpr size_t kBlockBytes = 128 * 1024;  // of rounded inputs: with a panel and its outputs well within L2
constexpr size_t kMostBlockRows = 16 * kTileRows;

inline Integers LoadIntegers(const int32_t* from) {
  Integers vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

inline size_t RowStride(size_t in) { return (in + kLanes - 1) / kLanes * kLanes * kInputBytes; }

inline size_t BlockRows(size_t rows, size_t in) {
  const size_t tiles = kBlockBytes / RowStride(in) / kTileRows;
  const size_t most = tiles == 0 ? kTileRows : tiles * kTileRows;
  const size_t fit = most < kMostBlockRows ? most : kMostBlockRows;
  return rows < fit ? rows : fit;
}

// What rounding a row leaves beside its integers: its value is scale * (integer + least).
struct RowScale {
  float scale = 0;
  int32_t least = 0;  // <= 0
};

// The last values of a row, zeros after them.
inline Vector LoadRest(const float* from, size_t count) {
  float values[kLanes] = {};
  for (size_t i = 0; i < count; ++i) values[i] = from[i];
  return Load(values);
}

inline RowScale RoundRow(const float* values, size_t count, std::byte* to) {
  // As integers, floats >= 0 are in the same order, what is not finite comes after all that is, and floats < 0 are
  // below 0. So these are the bits of the largest value and of minus the least one, 0 among them.
  Integers highs{};
  Integers lows{};
  const auto extend = [&](const Vector& vector) {
    const auto bits = reinterpret_cast<Integers>(vector);
    const Integers negated = bits ^ INT32_MIN;
    highs = bits > highs ? bits : highs;
    lows = negated > lows ? negated : lows;
  };
  const size_t whole = count / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) extend(Load(values + i));
  if (whole < count) extend(LoadRest(values + whole, count - whole));
  int32_t high_bits = 0;
  int32_t low_bits = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    high_bits = highs[i] > high_bits ? highs[i] : high_bits;
    low_bits = lows[i] > low_bits ? lows[i] : low_bits;
  }
  float high, low;
  __builtin_memcpy(&high, &high_bits, sizeof high);
  __builtin_memcpy(&low, &low_bits, sizeof low);
  constexpr int32_t kInfinityBits = 0x7f800000;
  constexpr float kLeastNormal = 0x1p-126f;
  const bool finite = high_bits < kInfinityBits && low_bits < kInfinityBits;
  const float scale = high / 255 + low / 255;
  if (!finite || scale < kLeastNormal) {
    for (size_t i = 0; i < RowStride(count); ++i) to[i] = std::byte{0};
    return {.scale = finite ? 0.0f : __builtin_nanf(""), .least = 0};
  }
  const float per_step = 1 / scale;
  // At 1.5 * 2^23 floats are whole numbers apart: the addition rounds, ties to even, and leaves the integer in the low
  // bits. The least value becomes 0.
  constexpr float kWhole = 12582912.0f;
  const float least = kWhole - (low * per_step + kWhole);
  const float first = kWhole + least;
  int32_t first_bits;
  __builtin_memcpy(&first_bits, &first, sizeof first_bits);
  const auto store = [&](const Vector& vector, size_t i) {
    StoreInputs(reinterpret_cast<Integers>(vector * per_step + kWhole) - first_bits, to + i * kInputBytes);
  };
  for (size_t i = 0; i < whole; i += kLanes) store(Load(values + i), i);
  if (whole < count) store(LoadRest(values + whole, count - whole), whole);
  return {.scale = scale, .least = static_cast<int32_t>(least)};
}

// For functions f with f(x) = max(x, 0) - g(|x|): g in [0, kEnd], where it is as good as 0, as a polynomial of
// t = 2 |x| / kEnd - 1, minimax. Not-a-number stays what it is.
template <size_t count>
inline Vector Bend(const Vector& x, float end, const float (&coefficients)[count]) {
  const Vector magnitude = x < 0.0f ? -x : x;
  const Vector t = MultiplyAdd(magnitude < end ? magnitude : Broadcast(end), Broadcast(2 / end), Broadcast(-1));
  Vector g = Broadcast(coefficients[count - 1]);
#pragma GCC unroll 16
  for (size_t i = 2; i <= count; ++i) g = MultiplyAdd(g, t, Broadcast(coefficients[count - i]));
  return (x < 0.0f ? Vector{} : x) - g;
}

// x times the normal distribution function; g = x times what that lacks of 1. Within 2e-6.
inline Vector Gelu(const Vector& x) {
  static constexpr float kG[] = {0.0155252535f,  -0.0940200537f, 0.232680619f,   -0.257033736f, -0.0175457932f,
                                 0.41955778f,    -0.490063012f,  0.075187169f,   0.343794495f,  -0.247765854f,
                                 -0.0911652446f, 0.128551707f,   0.00677318638f, -0.0244762935f};
  return Bend(x, 5.0f, kG);
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, within 2e-6.
inline Vector GeluTanh(const Vector& x) {
  static constexpr float kG[] = {0.0192777812f, -0.11054343f,  0.247096404f,   -0.213457689f, -0.115896538f,
                                 0.432275444f,  -0.345461667f, -0.0339874066f, 0.258623183f,  -0.136824027f,
                                 -0.068340376f, 0.07706901f,   0.00470071239f, -0.0145314634f};
  return Bend(x, 4.8f, kG);
}

inline Vector Relu(const Vector& x) { return x < 0.0f ? Vector{} : x; }

// x / (1 + e^-x), by e to what is negative.
inline Vector Silu(const Vector& x) {
  const Vector power = Exp(x < 0.0f ? x : -x);
  return x * (x < 0.0f ? power : Broadcast(1)) / (power + 1.0f);
}

// One tile: y[row, 0..outputs) = end(sums * scales + bias, other), where `other` is null or has y's places.
template <typename End>
inline void FinishTile(const Int8Product& product, size_t panel, size_t first_row, size_t rows,
                       const RowScale* row_scales, const int32_t* sums, const float* other, const End& end) {
  const size_t outputs = product.out - panel < kInt8PanelOutputs ? product.out - panel : kInt8PanelOutputs;
  float rest[kInt8PanelOutputs] = {};
  float joined[kInt8PanelOutputs] = {};
  for (size_t row = 0; row < rows; ++row, sums += kInt8PanelOutputs) {
    const size_t at = (first_row + row) * product.out + panel;
    float* to = product.y + at;
    const float* with = other == nullptr ? joined : other + at;
    if (outputs < kInt8PanelOutputs) {
      if (other != nullptr) __builtin_memcpy(joined, with, outputs * sizeof(float));
      with = joined;
      to = rest;
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < kInt8PanelOutputs; i += kLanes) {
      const Integers sum = LoadIntegers(sums + i) + LoadIntegers(product.integers + panel + i) * row_scales[row].least;
      const Vector value =
          __builtin_convertvector(sum, Vector) * (Load(product.scales + panel + i) * row_scales[row].scale);
      Store(end(value + Load(product.bias + panel + i), with + i), to + i);
    }
    if (outputs < kInt8PanelOutputs) __builtin_memcpy(product.y + at, rest, outputs * sizeof(float));
  }
}

// All products of a block of rounded rows.
template <typename End>
inline void MultiplyBlock(const Int8Product& product, size_t first_row, size_t rows, const std::byte* inputs,
                          const RowScale* row_scales, const float* other, const End& end) {
  const size_t groups = Int8Groups(product.in);
  const size_t stride = RowStride(product.in);
  const size_t panel_bytes = groups * kInt8Group * kInt8PanelOutputs;
  // Tiles of nearly one size: a last one of a single row would cost as much as a full one.
  const size_t tiles = (rows + kTileRows - 1) / kTileRows;
  alignas(64) int32_t sums[kTileRows * kInt8PanelOutputs];
  const int8_t* values = product.values;
  for (size_t panel = 0; panel < product.out; panel += kInt8PanelOutputs, values += panel_bytes) {
    for (size_t tile = 0, row = 0; tile < tiles; ++tile) {
      const size_t count = (rows - row) / (tiles - tile);
      SumTile(count, inputs + row * stride, stride, values, groups, sums);
      FinishTile(product, panel, first_row + row, count, row_scales + row, sums, other, end);
      row += count;
    }
  }
}

template <typename End>
inline void MultiplyRows(const Int8Product& product, std::byte* scratch, const float* other, const End& end) {
  const size_t most = BlockRows(product.rows, product.in);
  const size_t stride = RowStride(product.in);
  RowScale row_scales[kMostBlockRows];
  for (size_t first = 0; first < product.rows; first += most) {
    const size_t rows = product.rows - first < most ? product.rows - first : most;
    for (size_t row = 0; row < rows; ++row) {
      row_scales[row] = RoundRow(product.x + (first + row) * product.in, product.in, scratch + row * stride);
    }
    MultiplyBlock(product, first, rows, scratch, row_scales, other, end);
  }
}

void Multiply(const Int8Product& product, std::byte* scratch) {
  const Int8Finish& finish = product.finish;
  if (finish.add != nullptr) {
    return MultiplyRows(product, scratch, finish.add, [](const Vector& y, const float* x) { return y + Load(x); });
  }
  if (finish.factor != nullptr) {
    return MultiplyRows(product, scratch, finish.factor, [](const Vector& y, const float* x) { return y * Load(x); });
  }
  switch (finish.activation) {
    case Activation::kNone:
      return MultiplyRows(product, scratch, nullptr, [](const Vector& y, const float*) { return y; });
    case Activation::kGelu:
      return MultiplyRows(product, scratch, nullptr, [](const Vector& y, const float*) { return Gelu(y); });
    case Activation::kGeluTanh:
      return MultiplyRows(product, scratch, nullptr, [](const Vector& y, const float*) { return GeluTanh(y); });
    case Activation::kRelu:
      return MultiplyRows(product, scratch, nullptr, [](const Vector& y, const float*) { return Relu(y); });
    case Activation::kSilu:
      return MultiplyRows(product, scratch, nullptr, [](const Vector& y, const float*) { return Silu(y); });
  }
}

size_t ScratchBytes(size_t rows, size_t in) { return BlockRows(rows, in) * RowStride(in); }

const Int8Form kForm = {.scratch_bytes = ScratchBytes, .multiply = Multiply};
