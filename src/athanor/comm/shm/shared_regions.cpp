#include "athanor/comm/shm/shared_regions.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::shm {

namespace {
constexpr int kOffsetBits = 44;
constexpr uint64_t kMaxRegions = uint64_t{1} << (64 - kOffsetBits);

size_t round_up(size_t size_bytes, size_t unit) {
  return (std::max(size_bytes, size_t{1}) + unit - 1) / unit * unit;
}

[[noreturn]] void fail_memory(const std::string& what) {
  const int code = errno;
  throw IoError(fmt::format("shared memory: {}: {}", what, std::strerror(code)), code);
}
}  // namespace

void lengthen_file(int fd, uint64_t end) {
  const auto is_long_enough = [&] {
    struct stat status {};
    return fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_size) >= end;
  };
  if (is_long_enough() || ftruncate(fd, static_cast<off_t>(end)) == 0) return;
  const int code = errno;
  if (is_long_enough()) return;
  errno = code;
  fail_memory(fmt::format("cannot reserve {} bytes", end));
}
std::shared_ptr<std::byte> map_shared_memory(size_t size_bytes, int fd, uint64_t offset) {
  const size_t mapped_bytes = round_up(size_bytes, kSharedUnit);
  if (fd >= 0) lengthen_file(fd, offset + mapped_bytes);
  // Reserves addresses that begin at a multiple of a huge page; the excess at both ends is unmapped.
  void* found = mmap(nullptr, mapped_bytes + kSharedUnit, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) fail_memory(fmt::format("no addresses for {} bytes", mapped_bytes));
  auto* first = static_cast<std::byte*>(found);
  std::byte* begin = first + (kSharedUnit - reinterpret_cast<uintptr_t>(found) % kSharedUnit) % kSharedUnit;
  if (begin > first) munmap(first, static_cast<size_t>(begin - first));
  munmap(begin + mapped_bytes, kSharedUnit - static_cast<size_t>(begin - first));
  const int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  if (mmap(begin, mapped_bytes, PROT_READ | PROT_WRITE, MAP_FIXED | kind, fd, static_cast<off_t>(offset)) ==
      MAP_FAILED) {
    const int code = errno;
    munmap(begin, mapped_bytes);
    errno = code;
    fail_memory(fmt::format("cannot map {} bytes", mapped_bytes));
  }
  madvise(begin, mapped_bytes, MADV_HUGEPAGE);
  return {begin, [mapped_bytes](std::byte* memory) { munmap(memory, mapped_bytes); }};
}

struct SharedRegions::Region {
  std::shared_ptr<std::byte> memory;  // of all parts
  size_t part_bytes = 0;
  std::atomic<bool> held = true;  // this rank still has its part
};

SharedRegions::SharedRegions(int rank, int size, MapShared map, int release_advice)
    : rank_(rank), size_(size), release_advice_(release_advice), map_(std::move(map)) {}

std::shared_ptr<std::byte> SharedRegions::add(size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  check(regions_.size() + 1 < kMaxRegions && size_bytes < (size_t{1} << kOffsetBits),
        "shared memory: region {} of {} bytes, expected fewer than {} regions and {} bytes", regions_.size(),
        size_bytes, kMaxRegions, uint64_t{1} << kOffsetBits);
  const auto region = std::make_shared<Region>();
  region->part_bytes = round_up(size_bytes, kSharedUnit);
  const size_t all_bytes = region->part_bytes * static_cast<size_t>(size_);
  const uint64_t offset = end_;
  end_ += all_bytes;
  // Before mapping, which may fail: the numbers of regions must agree on all ranks.
  regions_.push_back(region);
  region->memory = map_(offset, all_bytes);
  std::byte* mine = region->memory.get() + static_cast<size_t>(rank_) * region->part_bytes;
  return {mine, [region, advice = release_advice_](std::byte* part) {
            region->held.store(false);
            madvise(part, region->part_bytes, advice);
          }};
}

SharedPlace SharedRegions::place_of(const void* data, size_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = *regions_[i];
    if (!region.memory || !region.held.load()) continue;
    const auto part =
        reinterpret_cast<uintptr_t>(region.memory.get()) + static_cast<size_t>(rank_) * region.part_bytes;
    if (address >= part && address - part <= region.part_bytes &&
        size_bytes <= region.part_bytes - (address - part))
      return (static_cast<uint64_t>(i + 1) << kOffsetBits) | (address - part);
  }
  return 0;
}

std::byte* SharedRegions::at(SharedPlace place, int rank) const {
  const std::lock_guard lock(mutex_);
  const uint64_t number = place >> kOffsetBits, offset = place & ((uint64_t{1} << kOffsetBits) - 1);
  check(1 <= number && number <= regions_.size() && regions_[number - 1]->memory,
        "shared memory: rank {} names region {} of {}", rank, number, regions_.size());
  const Region& region = *regions_[number - 1];
  return region.memory.get() + static_cast<size_t>(rank) * region.part_bytes + offset;
}

bool SharedRegions::empty() const {
  const std::lock_guard lock(mutex_);
  return regions_.empty();
}

}  // namespace athanor::comm::shm
