// Address space for an arena in whole huge pages (2 MiB). The system backs an address with cleared memory when it is
// first touched, so a slab may be far larger than the memory that will be used.
//
//   if (auto slab = map_slab(bytes)) {
//     populate(slab->data, 2 << 20);      // touches the pages now
//     unmap_slab(*slab);
//   }
//
// Huge pages are transparent where the machine grants them (madvise or always). Where it never does,
// back_with_set_aside_pages() uses pages that the administrator reserved (hugetlb), as long as there are any.
// Thread rule: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "athanor/base/namespaces.h"

namespace athanor::tensor {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

struct Slab {
  std::byte* data = nullptr;
  uint64_t size_bytes = 0;
};

// size_bytes is a multiple of kHugePage; nullopt if the system refuses.
std::optional<Slab> map_slab(uint64_t size_bytes);
void unmap_slab(const Slab& slab);

// Backs whole huge pages with cleared memory now; pages that have memory already stay as they are. Does nothing on
// Linux before 5.14: pages then come with the first touch.
void populate(std::byte* data, uint64_t size_bytes);

bool transparent_huge_pages();  // false: this machine never grants them
// For whole huge pages of a slab that were never touched. Returns false and changes nothing if too few pages are
// reserved.
bool back_with_set_aside_pages(std::byte* data, uint64_t size_bytes);

// Asks for huge pages for memory that is shared with other processes, which gets them only on demand. What the memory
// holds stays. Does nothing on Linux before 6.1.
void collapse_to_huge_pages(std::byte* data, uint64_t size_bytes);

uint64_t physical_memory_bytes();  // of this machine

}  // namespace athanor::tensor
