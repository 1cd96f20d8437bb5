// Memory that every rank of a group can address, as one rank sees it: a list of regions, each with one part per rank.
//
//   std::shared_ptr<std::byte> mine = regions.add(bytes);    // in the same order on every rank
//   const SharedPlace place = regions.place_of(mine.get() + 64, 1000);   // what this rank sends to the others
//   std::byte* theirs = regions.at(place, rank);                         // another rank's address of such a place
//
// Regions are consecutive ranges of offsets, so ranks that add the same sizes agree on them without communication. A
// region stays mapped until the group ends, since peers may still use its places; the memory of a part is returned to
// the system when its rank drops it. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "athanor/base/namespaces.h"

namespace athanor::comm::shm {

// Region number (from 1) and offset in the part, packed into a word of shared memory. 0: in no region.
using SharedPlace = uint64_t;

// Provided by the transport: maps `size_bytes` zeroed bytes at an offset, the same memory for every rank. Size and
// offset are multiples of kSharedUnit, a huge page.
constexpr size_t kSharedUnit = size_t{2} << 20;
using MapShared = std::function<std::shared_ptr<std::byte>(uint64_t offset, size_t size_bytes)>;

// Maps zeroed memory of the process (fd -1), or of a file that is lengthened if needed, at a multiple of kSharedUnit.
std::shared_ptr<std::byte> map_shared_memory(size_t size_bytes, int fd = -1, uint64_t offset = 0);

// Lengthens a file to `end` bytes at least; several processes may do so at once. The file never shrinks.
void lengthen_file(int fd, uint64_t end);

class SharedRegions {
 public:
  // `release_advice`: what madvise() is told about a part that its rank has dropped.
  SharedRegions(int rank, int size, MapShared map, int release_advice);

  // Adds a region and returns this rank's part: zeroed, page-aligned.
  std::shared_ptr<std::byte> add(size_t size_bytes);
  SharedPlace place_of(const void* data, size_t size_bytes) const;
  std::byte* at(SharedPlace place, int rank) const;
  bool empty() const;

 private:
  struct Region;
  int rank_, size_, release_advice_;
  MapShared map_;
  mutable std::mutex mutex_;
  uint64_t end_ = 0;  // offset of the next region
  std::deque<std::shared_ptr<Region>> regions_;
};

}  // namespace athanor::comm::shm
