#include "engine/base/heap.h"

#include <cstddef>

#include "engine/base/mutex.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tributary {
namespace {

#ifdef __GLIBC__
constexpr int kMappedFromBytes = 128 << 10;
constexpr int kLargestThresholdBytes = 32 << 20;  // the most that glibc takes
constexpr int kKeptAtEndBytes = 64 << 20;         // of each arena; what glibc comes to by itself

void MapFrom(int bytes) {
  // Setting one of them ends glibc's own adjustment of both.
  mallopt(M_MMAP_THRESHOLD, bytes);
  mallopt(M_TRIM_THRESHOLD, kKeptAtEndBytes);
}
#endif

struct Holders {
  Mutex mutex;
  size_t count TRIBUTARY_GUARDED_BY(mutex) = 0;
};

Holders& TheHolders() {
  static Holders holders;
  return holders;
}

}  // namespace

MappedBlocks::MappedBlocks() {
  Holders& holders = TheHolders();
  MutexLock lock(holders.mutex);
  if (++holders.count > 1) return;
#ifdef __GLIBC__
  MapFrom(kMappedFromBytes);
#endif
}

MappedBlocks::~MappedBlocks() {
  Holders& holders = TheHolders();
  MutexLock lock(holders.mutex);
  if (--holders.count > 0) return;
#ifdef __GLIBC__
  MapFrom(kLargestThresholdBytes);
#endif
}

void TrimHeap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace tributary
