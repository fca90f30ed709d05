#include "engine/libtorch/weights/content_hash.h"

#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

constexpr std::array<uint64_t, 4> kSecret = {0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3,
                                             0x589965cc75374cc3};

uint64_t Fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t Word(const char* bytes) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

void ContentHash::Add(std::string_view bytes) {
  std::array<uint64_t, 4> streams;
  for (size_t i = 0; i < streams.size(); ++i) streams[i] = value_ ^ kSecret[i];

  constexpr size_t kBlockBytes = 64;
  const auto add_block = [&streams](const char* block) {
    for (size_t i = 0; i < streams.size(); ++i) {
      streams[i] = Fold(Word(block + 16 * i) ^ kSecret[i], Word(block + 16 * i + 8) ^ streams[i]);
    }
  };
  size_t done = 0;
  for (; bytes.size() - done >= kBlockBytes; done += kBlockBytes) add_block(bytes.data() + done);
  std::array<char, kBlockBytes> rest{};
  if (done < bytes.size()) std::memcpy(rest.data(), bytes.data() + done, bytes.size() - done);
  add_block(rest.data());

  value_ =
      Fold(streams[0] ^ kSecret[1], streams[1] ^ kSecret[2]) ^ Fold(streams[2] ^ kSecret[3], streams[3] ^ kSecret[0]);
  value_ = Fold(value_ ^ kSecret[0], bytes.size() ^ kSecret[1]);
}

std::string ContentHash::Hex() const { return absl::StrCat(absl::Hex(value_, absl::kZeroPad16)); }

}  // namespace tributary
