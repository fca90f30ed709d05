// What the C library's allocator is told of our memory: what a model keeps comes and goes in large blocks; what a batch
// needs comes again with the next.
#pragma once

namespace tributary {

// While one lives, blocks from 128 KiB on are mapped one by one, by whatever thread: freed, they are the system's again
// at once. (An arena keeps up to 64 MiB of what was freed at its end, and malloc_trim reaches only the main arena's.)
// While none lives, blocks below 32 MiB come from the arenas and stay there: no page faults batch after batch. Nothing
// where the allocator is not glibc's. Thread-safety: any number, on any threads. Source: mallopt(3), M_MMAP_THRESHOLD;
// glibc malloc/malloc.c, mtrim.
class MappedBlocks {
 public:
  MappedBlocks();
  ~MappedBlocks();
  MappedBlocks(const MappedBlocks&) = delete;
  MappedBlocks& operator=(const MappedBlocks&) = delete;
};

// Gives what lies free between blocks back to the system. Milliseconds.
void TrimHeap();

}  // namespace tributary
