#include "athanor/comm/shm/shared_regions.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::shm {

namespace {
constexpr int kOffsetBits = 44;
constexpr uint64_t kMaxRegions = uint64_t{1} << (64 - kOffsetBits);

}  // namespace

SharedRegions::SharedRegions(int rank, int size, RankMemory memory)
    : rank_(rank), size_(size), memory_(std::move(memory)) {}

void SharedRegions::add(const std::shared_ptr<std::byte>& own, size_t size_bytes,
                        const std::vector<uint64_t>& places) {
  const std::lock_guard lock(mutex_);
  check(regions_.size() + 1 < kMaxRegions && size_bytes < (size_t{1} << kOffsetBits),
        "shared memory: region {} of {} bytes, expected fewer than {} regions and {} bytes", regions_.size(),
        size_bytes, kMaxRegions, uint64_t{1} << kOffsetBits);
  // Before mapping, which may fail: the numbers of regions must agree on all ranks.
  Region& region = regions_.emplace_back();
  region.size_bytes = size_bytes;
  region.parts.resize(places.size());
  for (int rank = 0; rank < size_; ++rank) {
    const uint64_t place = places[static_cast<size_t>(rank)];
    if (place == 0) continue;
    if (rank == rank_) {
      region.own = own;
      region.own_data = own.get();
    } else {
      region.parts[static_cast<size_t>(rank)] = memory_.open(place, size_bytes);
    }
  }
}

SharedPlace SharedRegions::place_of(const void* data, size_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    if (region.own.expired()) continue;
    const auto part = reinterpret_cast<uintptr_t>(region.own_data);
    if (address >= part && address - part <= region.size_bytes &&
        size_bytes <= region.size_bytes - (address - part))
      return (static_cast<uint64_t>(i + 1) << kOffsetBits) | (address - part);
  }
  return 0;
}

std::byte* SharedRegions::at(SharedPlace place, int rank) const {
  const std::lock_guard lock(mutex_);
  const uint64_t number = place >> kOffsetBits, offset = place & ((uint64_t{1} << kOffsetBits) - 1);
  check(1 <= number && number <= regions_.size(), "shared memory: rank {} names region {} of {}", rank,
        number, regions_.size());
  const Region& region = regions_[number - 1];
  std::byte* part = rank == rank_ ? region.own_data : region.parts[static_cast<size_t>(rank)].get();
  check(part != nullptr, "shared memory: rank {} names region {}, of which it has no part", rank, number);
  return part + offset;
}

bool SharedRegions::empty() const {
  const std::lock_guard lock(mutex_);
  return regions_.empty();
}

}  // namespace athanor::comm::shm
