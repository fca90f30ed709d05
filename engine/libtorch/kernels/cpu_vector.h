// Vectors of floats, for one width. Included by one source an instruction set, within a namespace of its own, as are
// the kernels that use it. Defines: kLanes (floats a register) must be set before by the including source.

using Vector = float __attribute__((vector_size(kLanes * 4)));
using Integers = int32_t __attribute__((vector_size(kLanes * 4)));
using Unsigned = uint32_t __attribute__((vector_size(kLanes * 4)));

inline Vector Load(const float* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}
inline void Store(const Vector& vector, float* to) { __builtin_memcpy(to, &vector, sizeof vector); }
inline Vector Broadcast(float value) { return value - Vector{}; }
inline Vector Max(const Vector& a, const Vector& b) { return a > b ? a : b; }

// e^x for x <= 0, to 2 units in the last place; below -87 it is 0 within rounding of any sum it goes into.
// Source: Cephes expf: x = n ln 2 + r, |r| <= ln(2) / 2, polynomial in r.
inline Vector Exp(Vector x) {
  x = x < -87.0f ? Broadcast(-87.0f) : x;       // this way round, not-a-number stays what it is
  const Vector shift = Broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vector n = (x * 1.44269504088896341f + shift) - shift;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // Unsigned, as sums of bits are. Not-a-number becomes 2^31, of which the shift leaves nothing: p stays what it is.
  const Unsigned bits = reinterpret_cast<Unsigned>(__builtin_convertvector(n, Integers)) << 23;
  return reinterpret_cast<Vector>(reinterpret_cast<Unsigned>(p) + bits);
}
