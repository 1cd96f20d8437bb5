// The memory that all ranks of a group can address, as one rank sees it: regions, each of one part per rank.
//
//   std::shared_ptr<std::byte> mine = regions.add(bytes);    // in the same order on every rank
//   const SharedPlace place = regions.place_of(mine.get() + 64, 1000);   // what this rank tells the others
//   std::byte* theirs = regions.at(place, rank);                         // what another makes of it
//
// A region is a range of one endless range of offsets, so ranks that add the same sizes agree on it without a
// word. It stays mapped until the group ends, since peers may still name it; the memory of a part goes back to
// the system when its rank drops it. Thread rule: from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace athanor {

// Region number (from 1) and offset in the part, packed so that it fits a word of shared memory; 0: nowhere.
using SharedPlace = uint64_t;

// Maps `size_bytes` zeroed bytes at an offset, the same memory for every rank: what a transport provides. Both
// are multiples of kSharedUnit, a huge page.
constexpr size_t kSharedUnit = size_t{2} << 20;
using MapShared = std::function<std::shared_ptr<std::byte>(uint64_t offset, size_t size_bytes)>;

// Memory of the process (fd -1) or of a file that is made long enough: zeroed, at a multiple of kSharedUnit.
std::shared_ptr<std::byte> map_shared_memory(size_t size_bytes, int fd = -1, uint64_t offset = 0);

// Makes a file that others may be lengthening, too, at least so long. It cannot be cut.
void lengthen_file(int fd, uint64_t end);

class SharedRegions {
 public:
  // `release_advice`: what madvise() is told about a part that its rank has dropped.
  SharedRegions(int rank, int size, MapShared map, int release_advice);

  // Zeroed, page-aligned; the own part of a new region.
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

}  // namespace athanor
