// Address space for an arena in whole huge pages (2 MiB). The system backs it with memory as it is touched and
// clears that to zero, so address space may be far larger than what will be used of it.
//
//   if (auto slab = map_slab(bytes)) {
//     populate(slab->data, 2 << 20);      // touch it now, as a kernel would later
//     unmap_slab(*slab);
//   }
//
// Huge pages: transparent ones where the machine grants them (madvise or always). Where it never does,
// back_with_set_aside_pages() takes those that its administrator set aside (hugetlb), as far as they reach.
// Thread rule: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace athanor {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

struct Slab {
  std::byte* data = nullptr;
  uint64_t size_bytes = 0;
};

// size_bytes is a multiple of kHugePage; nothing where the system refuses.
std::optional<Slab> map_slab(uint64_t size_bytes);
void unmap_slab(const Slab& slab);

// Backs whole huge pages with cleared memory now; what is there already stays as it is. Does nothing on a kernel
// that cannot (before 5.14): pages then come with the first touch.
void populate(std::byte* data, uint64_t size_bytes);

bool transparent_huge_pages();  // false: this machine never grants them
// For whole huge pages of a slab that were never touched; false, and nothing changes, where there are too few.
bool back_with_set_aside_pages(std::byte* data, uint64_t size_bytes);

// For memory that is shared with other processes, which gets huge pages only on demand: asks for them. The memory
// is cleared or not in use yet. Does nothing on a kernel that cannot (before 6.1).
void collapse_to_huge_pages(std::byte* data, uint64_t size_bytes);

uint64_t physical_memory_bytes();  // of this machine

}  // namespace athanor
