#include "athanor/tensor/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "athanor/base/check.h"

namespace athanor {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kSlabBytes = uint64_t{32} << 20;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

struct Slab {
  std::byte* data;
  uint64_t size_bytes;
};

}  // namespace

const char* name_of(Category category) {
  constexpr const char* kNames[] = {"parameters",  "gradients",     "optimizer",
                                    "activations", "communication", "workspace"};
  return kNames[static_cast<size_t>(category)];
}

const char* name_of(Device device) {
  return device == Device::cpu ? "cpu" : device == Device::cuda ? "cuda" : "null";
}

struct Arena::State {
  mutable std::mutex mutex;
  MemoryUsage usage;
  std::vector<Slab> slabs;
  // Free blocks, by address (to merge neighbours) and by (size, address) (to find the best fit: the smallest
  // that is large enough, at the lowest address, so that equal sequences get equal addresses).
  std::map<std::byte*, uint64_t> free_by_address;
  std::set<std::pair<uint64_t, std::byte*>> free_by_size;
  std::byte* next_null_address = reinterpret_cast<std::byte*>(uint64_t{1} << 46);
  uint64_t limit_bytes = 0;

  void insert_free(std::byte* data, uint64_t size_bytes) {
    free_by_address[data] = size_bytes;
    free_by_size.insert({size_bytes, data});
  }
  void erase_free(std::map<std::byte*, uint64_t>::iterator it) {
    free_by_size.erase({it->second, it->first});
    free_by_address.erase(it);
  }

  void add_slab(uint64_t needed_bytes, Device device) {
    const uint64_t size_bytes =
        needed_bytes <= kSlabBytes / 4 ? kSlabBytes : round_up(needed_bytes, kHugePage);
    check(limit_bytes == 0 || usage.reserved_total + size_bytes <= limit_bytes,
          "memory: {} bytes more do not fit under the limit of {}; in use: parameters {}, gradients {}, "
          "optimizer {}, "
          "activations {}, communication {}, workspace {}",
          size_bytes, limit_bytes, usage.current[0], usage.current[1], usage.current[2], usage.current[3],
          usage.current[4], usage.current[5]);
    std::byte* data = next_null_address;
    if (device == Device::null) {
      next_null_address += size_bytes + kHugePage;  // a gap: neighbouring slabs must not merge
    } else {
      void* address = ::mmap(nullptr, size_bytes + kHugePage, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      check(address != MAP_FAILED, "memory: the system refuses {} bytes (errno {})", size_bytes, errno);
      auto* mapped = static_cast<std::byte*>(address);
      data = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uint64_t>(mapped), kHugePage));
      if (data > mapped) ::munmap(mapped, static_cast<size_t>(data - mapped));
      std::byte* end = data + size_bytes;
      std::byte* mapped_end = mapped + size_bytes + kHugePage;
      // The last page before the next mapping stays unmapped, so slabs never touch.
      if (mapped_end > end) ::munmap(end, static_cast<size_t>(mapped_end - end));
      ::madvise(data, size_bytes, MADV_HUGEPAGE);
    }
    slabs.push_back({data, size_bytes});
    usage.reserved_total += size_bytes;
    insert_free(data, size_bytes);
  }

  bool same_slab(const std::byte* a, const std::byte* b) const {
    return std::any_of(slabs.begin(), slabs.end(), [&](const Slab& slab) {
      return a >= slab.data && a < slab.data + slab.size_bytes && b >= slab.data &&
             b < slab.data + slab.size_bytes;
    });
  }
};

Arena::Arena(Queue& queue, uint64_t limit_bytes) : queue_(queue), state_(std::make_unique<State>()) {
  state_->limit_bytes = limit_bytes;
}

Arena::~Arena() {
  if (queue_.device() == Device::null) return;
  for (const Slab& slab : state_->slabs) ::munmap(slab.data, slab.size_bytes);
}

std::shared_ptr<Storage> Arena::allocate(uint64_t size_bytes, Category category) {
  State& s = *state_;
  const uint64_t rounded = std::max(kAlignment, round_up(size_bytes, kAlignment));
  std::byte* data = nullptr;
  {
    const std::lock_guard lock(s.mutex);
    auto fit = s.free_by_size.lower_bound({rounded, nullptr});
    if (fit == s.free_by_size.end()) {
      s.add_slab(rounded, queue_.device());
      fit = s.free_by_size.lower_bound({rounded, nullptr});
    }
    const auto [block_bytes, address] = *fit;
    data = address;
    s.erase_free(s.free_by_address.find(address));
    if (block_bytes > rounded) s.insert_free(address + rounded, block_bytes - rounded);

    const auto index = static_cast<size_t>(category);
    s.usage.current[index] += rounded;
    s.usage.peak[index] = std::max(s.usage.peak[index], s.usage.current[index]);
    s.usage.current_total += rounded;
    s.usage.peak_total = std::max(s.usage.peak_total, s.usage.current_total);
  }
  return std::make_shared<Storage>(*this, data, rounded, category);
}

void Arena::free(std::byte* data, uint64_t size_bytes, Category category) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  s.usage.current[static_cast<size_t>(category)] -= size_bytes;
  s.usage.current_total -= size_bytes;
  auto next = s.free_by_address.lower_bound(data);
  if (next != s.free_by_address.end() && next->first == data + size_bytes && s.same_slab(data, next->first)) {
    size_bytes += next->second;
    auto after = std::next(next);
    s.erase_free(next);
    next = after;
  }
  if (next != s.free_by_address.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == data && s.same_slab(previous->first, data)) {
      data = previous->first;
      size_bytes += previous->second;
      s.erase_free(previous);
    }
  }
  s.insert_free(data, size_bytes);
}

MemoryUsage Arena::usage() const {
  const std::lock_guard lock(state_->mutex);
  return state_->usage;
}

void Arena::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->usage.peak = state_->usage.current;
  state_->usage.peak_total = state_->usage.current_total;
}

Storage::~Storage() {
  arena_.free(data_, size_bytes_, category_);
}

}  // namespace athanor
