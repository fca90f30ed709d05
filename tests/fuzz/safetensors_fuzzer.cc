// libFuzzer's target for the reader of safetensors headers, over bytes in memory and over the same bytes as a mapped
// file. Whatever the file says, it is a header whose every tensor lies inside the file, or an error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/files/mapped_file.h"
#include "engine/libtorch/weights/safetensors_header.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

// What weights/safetensors.cc and LibTorch rely on when they make a tensor of an entry.
void Check(const tributary::SafetensorsEntry& entry, std::string_view file) {
  Require(entry.offset <= file.size() && entry.bytes <= file.size() - entry.offset);
  uint64_t bytes = tributary::ElementBytes(entry.type);
  int64_t stride = 1;
  for (const int64_t extent : entry.shape) {
    Require(extent >= 0);
    bytes *= static_cast<uint64_t>(extent);
    Require(!__builtin_mul_overflow(stride, extent > 1 ? extent : 1, &stride));
  }
  Require(bytes == entry.bytes);
  if (entry.bytes == 0) return;
  // Read, so that a place outside the memory is seen.
  volatile char seen = file[entry.offset];
  seen = file[entry.offset + entry.bytes - 1];
  static_cast<void>(seen);
}

bool Parse(std::string_view file) {
  const auto header = tributary::ParseSafetensorsHeader(file);
  if (!header.ok()) {
    Require(!header.status().message().empty());
    return false;
  }
  for (const auto& [name, entry] : *header) Check(entry, file);
  return true;
}

// A file in memory, opened by name as any other.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(descriptor_ >= 0);
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      Require(written > 0);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  const int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const bool good = Parse(input);
  const MemoryFile file(input);
  const auto mapped = tributary::MappedFile::Open(file.path());
  Require(mapped.ok() && (*mapped)->bytes() == input);
  Require(Parse((*mapped)->bytes()) == good);
  return 0;
}
