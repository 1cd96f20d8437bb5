#include "athanor/tensor/slab.h"

#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <string>

#include "athanor/base/check.h"

namespace athanor::tensor {

std::optional<Slab> map_slab(uint64_t size_bytes) {
  void* address = ::mmap(nullptr, size_bytes + kHugePage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return std::nullopt;
  auto* mapped = static_cast<std::byte*>(address);
  const uint64_t before = (kHugePage - reinterpret_cast<uint64_t>(mapped) % kHugePage) % kHugePage;
  const uint64_t after = kHugePage - before;
  const Slab slab{mapped + before, size_bytes};
  if (before > 0) ::munmap(mapped, before);
  if (after > 0) ::munmap(slab.data + size_bytes, after);
  ::madvise(slab.data, size_bytes, MADV_HUGEPAGE);
  return slab;
}

void unmap_slab(const Slab& slab) {
  ::munmap(slab.data, slab.size_bytes);
}

void populate(std::byte* data, uint64_t size_bytes) {
  ::madvise(data, size_bytes, MADV_POPULATE_WRITE);
}

bool transparent_huge_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(in, line) && line.find("[never]") == std::string::npos;
}

bool back_with_set_aside_pages(std::byte* data, uint64_t size_bytes) {
  constexpr int kTwoMiB = 21 << MAP_HUGE_SHIFT;
  const auto map_here = [&](int flags) {
    return ::mmap(data, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags,
                  -1, 0) != MAP_FAILED;
  };
  // The pages are reserved at once (no MAP_NORESERVE), so that no later touch can fail. An attempt that fails has
  // unmapped what was there.
  if (map_here(MAP_HUGETLB | kTwoMiB)) return true;
  check(map_here(MAP_NORESERVE), "memory: the system refuses {} bytes (errno {})", size_bytes, errno);
  return false;
}

void collapse_to_huge_pages(std::byte* data, uint64_t size_bytes) {
  constexpr int kMadvCollapse = 25;  // newer than the C library's headers; others refuse it
  const uint64_t whole = size_bytes / kHugePage * kHugePage;
  if (whole == 0 || reinterpret_cast<uint64_t>(data) % kHugePage != 0) return;
  // Only pages in use are collapsed: one byte of each is enough. It keeps its value, also where another process writes it.
  for (uint64_t at = 0; at < whole; at += kHugePage)
    std::atomic_ref(*reinterpret_cast<unsigned char*>(data + at)).fetch_or(0);
  ::madvise(data, whole, kMadvCollapse);
}

uint64_t physical_memory_bytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace athanor::tensor
