// Memory that every rank of a group can address, as one rank sees it: a list of regions, each with one part per rank. The
// parts are memory of their ranks; a group only knows where they are.
//
//   regions.add(mine, bytes, places_of_all);              // in the same order on every rank
//   const SharedPlace place = regions.place_of(mine.get() + 64, 1000);   // what this rank sends to the others
//   std::byte* theirs = regions.at(place, rank);                         // another rank's address of such a place
//
// The parts of other ranks stay mapped until the group ends, since peers may still use its places.
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::comm::shm {

// Region number (from 1) and offset in the part, packed into a word of shared memory. 0: in no region.
using SharedPlace = uint64_t;

// What a transport provides of its ranks' memory.
struct RankMemory {
  std::function<std::shared_ptr<std::byte>(size_t size_bytes)> allocate;  // zeroed, of this rank
  // Where memory of this rank lies, for the other ranks; 0: they cannot address it.
  std::function<uint64_t(const std::byte* own)> place_of;
  std::function<std::shared_ptr<std::byte>(uint64_t place, size_t size_bytes)> open;  // of another rank
};

class SharedRegions {
 public:
  SharedRegions(int rank, int size, RankMemory memory);

  uint64_t place_for_others(const std::byte* own) const { return own == nullptr ? 0 : memory_.place_of(own); }
  // Adds a region of `size_bytes` a rank. `places`: of each rank what its place_for_others() is; 0: it has no part.
  void add(const std::shared_ptr<std::byte>& own, size_t size_bytes, const std::vector<uint64_t>& places);
  SharedPlace place_of(const void* data, size_t size_bytes) const;
  std::byte* at(SharedPlace place, int rank) const;
  bool empty() const;

 private:
  struct Region {
    std::weak_ptr<std::byte> own;  // expires when this rank drops it
    std::byte* own_data = nullptr;
    size_t size_bytes = 0;
    std::vector<std::shared_ptr<std::byte>> parts = {};  // of the other ranks; null where a rank has none
  };
  int rank_, size_;
  RankMemory memory_;
  mutable std::mutex mutex_;
  std::deque<Region> regions_;
};

}  // namespace athanor::comm::shm
