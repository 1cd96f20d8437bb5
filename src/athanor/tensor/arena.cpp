#include "athanor/tensor/arena.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/tensor/device_memory.h"
#include "athanor/tensor/slab.h"

namespace athanor::tensor {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kSlabBytes = uint64_t{32} << 20;
constexpr uint64_t kDeviceSlabBytes = uint64_t{256} << 20;
// The most that the null device allocates: more than any machine has, and small enough that no count overflows.
constexpr uint64_t kNullBytes = uint64_t{1} << 61;
// Bytes of pages touched ahead of use: enough to give all threads some, little compared with what is in use.
constexpr uint64_t kMaxAheadBytes = uint64_t{16} << 20;

uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// A slab, and how much of it was ever allocated.
struct PartitionedSlab {
  Slab slab;
  uint64_t partitioned = 0;  // bytes from its start; nothing above was ever partitioned: it is zero
  uint64_t touched = 0;      // bytes from its start whose pages were touched ahead of use
  uint64_t backed = 0;       // so far pages that were set aside were tried
};

}  // namespace

const char* name_of(Category category) {
  constexpr const char* kNames[] = {"parameters",  "gradients",     "optimizer", "snapshot",
                                    "activations", "communication", "workspace"};
  return kNames[static_cast<size_t>(category)];
}

const char* name_of(Device device) {
  return device == Device::cpu ? "cpu" : device == Device::cuda ? "cuda" : "null";
}

struct Arena::State {
  mutable std::mutex mutex;
  Device device;
  MemoryUsage usage;
  uint64_t limit_bytes;
  std::map<std::byte*, PartitionedSlab> slabs;  // by address
  // Free blocks, by address (to merge neighbours) and by (rank, address). The best fit is the smallest block that is
  // large enough, at the lowest address, so that equal sequences of calls get equal addresses. A block that reaches to
  // the end of a slab ranks after all others, so the part in use grows only if no gap fits, however large the slab is.
  std::map<std::byte*, uint64_t> free_by_address;
  std::set<std::pair<uint64_t, std::byte*>> free_by_rank;
  std::map<std::byte*, std::shared_ptr<std::byte>> adopted;
  uint64_t touched_bytes = 0;
  std::vector<std::weak_ptr<Storage>>* watcher = nullptr;
  const std::thread::id owner = std::this_thread::get_id();
  const bool set_aside;
  DeviceMemory* const device_memory;  // null: the host's
  const Shareable shareable;
  uint64_t next_shareable = uint64_t{1}
                            << 62;  // on the null device: addresses without memory, above all slabs

  State(Queue& queue, uint64_t limit, Shareable source)
      : device(queue.device()),
        limit_bytes(limit == 0 ? kNullBytes : limit),
        set_aside(device == Device::cpu && !transparent_huge_pages()),
        device_memory(queue.device_memory()),
        shareable(std::move(source)) {}

  PartitionedSlab& slab_of(std::byte* data) { return std::prev(slabs.upper_bound(data))->second; }

  uint64_t rank_of(std::byte* data, uint64_t size_bytes) {
    constexpr uint64_t kLast = uint64_t{1} << 63;
    const Slab& slab = slab_of(data).slab;
    return data + size_bytes == slab.data + slab.size_bytes ? kLast + size_bytes : size_bytes;
  }
  void insert_free(std::byte* data, uint64_t size_bytes) {
    free_by_address[data] = size_bytes;
    free_by_rank.insert({rank_of(data, size_bytes), data});
  }
  void erase_free(std::map<std::byte*, uint64_t>::iterator it) {
    free_by_rank.erase({rank_of(it->first, it->second), it->first});
    free_by_address.erase(it);
  }
  std::map<std::byte*, uint64_t>::iterator best_fit(uint64_t size_bytes) {
    for (auto it = free_by_rank.lower_bound({size_bytes, nullptr}); it != free_by_rank.end(); ++it)
      if (const auto block = free_by_address.find(it->second); block->second >= size_bytes) return block;
    return free_by_address.end();
  }

  void take(uint64_t size_bytes, Category category) {
    const auto index = static_cast<size_t>(category);
    usage.current[index] += size_bytes;
    usage.peak[index] = std::max(usage.peak[index], usage.current[index]);
    usage.current_total += size_bytes;
    usage.peak_total = std::max(usage.peak_total, usage.current_total);
  }

  // Bytes that the process is about to hold in addition.
  void reserve(uint64_t size_bytes) {
    if (usage.reserved_total + size_bytes > limit_bytes)
      throw OverLimit(fmt::format("memory: {} bytes more do not fit under the limit of {}; {}", size_bytes,
                                  limit_bytes, held()));
    usage.reserved_total += size_bytes;
  }

  // The first slab is address space for all memory of the machine, so that all blocks are contiguous. If the system
  // refuses that (a limit of address space, an overcommit policy), smaller slabs are added one by one. So they are on a
  // device, where address space always has memory behind it.
  void add_slab(uint64_t needed_bytes) {
    std::optional<Slab> slab;
    if (device == Device::null) {
      if (slabs.empty()) slab = Slab{reinterpret_cast<std::byte*>(kHugePage), kNullBytes};
    } else if (device_memory != nullptr) {
      slab = device_memory->allocate(std::max(kDeviceSlabBytes, round_up(needed_bytes, kHugePage)));
      if (!slab) slab = device_memory->allocate(round_up(needed_bytes, kHugePage));
      if (!slab)
        throw OverLimit(fmt::format("memory: the device has no {} bytes more; {}", needed_bytes, held()));
    } else {
      if (slabs.empty()) slab = map_slab(round_up(2 * physical_memory_bytes(), kHugePage));
      if (!slab || slab->size_bytes < needed_bytes)
        slab = map_slab(std::max(kSlabBytes, round_up(needed_bytes, kHugePage)));
    }
    check(slab.has_value(), "memory: the system refuses {} bytes more; {}", needed_bytes, held());
    slabs[slab->data] = {.slab = *slab};
    ++usage.slabs;
    insert_free(slab->data, slab->size_bytes);
  }

  std::string held() const {
    std::string text = "in use:";
    for (size_t i = 0; i < kNumCategories; ++i)
      text += fmt::format("{} {} {}", i == 0 ? "" : ",", name_of(static_cast<Category>(i)), usage.current[i]);
    return text;
  }

  // Notes that the first `end` bytes of a slab were allocated.
  void deal(PartitionedSlab& slab, uint64_t end) {
    if (end <= slab.partitioned) return;
    reserve(round_up(end, kHugePage) - round_up(slab.partitioned, kHugePage));
    for (; set_aside && slab.backed < end; slab.backed += kSlabBytes)
      back_with_set_aside_pages(slab.slab.data + slab.backed,
                                std::min(kSlabBytes, slab.slab.size_bytes - slab.backed));
    slab.partitioned = end;
  }

  // The pages of a slab that are due to be touched now: those in use and some more.
  Slab due(PartitionedSlab& slab) {
    if (slab.partitioned <= slab.touched) return {};
    const uint64_t first = slab.touched, ahead = std::min(touched_bytes / 4, kMaxAheadBytes);
    slab.touched = std::min(slab.slab.size_bytes, round_up(slab.partitioned + ahead, kHugePage));
    touched_bytes += slab.touched - first;
    return {slab.slab.data + first, slab.touched - first};
  }
};

Arena::Arena(Queue& queue, uint64_t limit_bytes, Shareable shareable)
    : queue_(queue), state_(std::make_unique<State>(queue, limit_bytes, std::move(shareable))) {}

Arena::~Arena() {
  if (queue_.device() == Device::null) return;
  for (const auto& [data, partitioned] : state_->slabs)
    state_->device_memory == nullptr ? unmap_slab(partitioned.slab)
                                     : state_->device_memory->release(partitioned.slab);
}

std::shared_ptr<Storage> Arena::allocate(uint64_t size_bytes, Category category) {
  State& s = *state_;
  std::byte* data = nullptr;
  bool fresh = false;
  Slab due;
  const uint64_t rounded = std::max(kAlignment, round_up(std::min(size_bytes, kNullBytes), kAlignment));
  {
    const std::lock_guard lock(s.mutex);
    auto fit = s.best_fit(rounded);
    if (fit == s.free_by_address.end()) {
      s.add_slab(rounded);
      fit = s.best_fit(rounded);
    }
    if (fit == s.free_by_address.end())
      throw OverLimit(fmt::format("memory: no machine has {} bytes; {}", size_bytes, s.held()));
    const auto [address, block_bytes] = *fit;
    PartitionedSlab& slab = s.slab_of(address);
    const auto offset = static_cast<uint64_t>(address - slab.slab.data);
    data = address;
    fresh = offset >= slab.partitioned && s.device_memory == nullptr;
    s.deal(slab, offset + rounded);
    s.erase_free(fit);
    if (block_bytes > rounded) s.insert_free(address + rounded, block_bytes - rounded);
    if (queue_.device() == Device::cpu && queue_.num_threads() > 1 && s.owner == std::this_thread::get_id())
      due = s.due(slab);

    s.take(rounded, category);
  }
  queue_.parallel_for(static_cast<int64_t>(due.size_bytes / kHugePage), [due](int64_t page) {
    populate(due.data + static_cast<uint64_t>(page) * kHugePage, kHugePage);
  });
  auto storage = std::make_shared<Storage>(*this, data, rounded, category, fresh);
  const std::lock_guard lock(s.mutex);
  if (s.watcher != nullptr) s.watcher->push_back(storage);
  return storage;
}

void Arena::watch(std::vector<std::weak_ptr<Storage>>* list) {
  const std::lock_guard lock(state_->mutex);
  state_->watcher = list;
}

std::shared_ptr<Storage> Arena::allocate_shareable(uint64_t size_bytes, Category category) {
  State& s = *state_;
  const uint64_t whole_bytes = round_up(std::max<uint64_t>(size_bytes, 1), kHugePage);
  std::shared_ptr<std::byte> memory;
  if (s.device == Device::null) {
    const std::lock_guard lock(s.mutex);
    memory = {std::shared_ptr<void>(), reinterpret_cast<std::byte*>(s.next_shareable)};
    s.next_shareable += whole_bytes;
  } else if (s.device_memory == nullptr && s.shareable) {
    memory = s.shareable(size_bytes);
  } else {
    DeviceMemory* device = s.device_memory;
    const std::optional<Slab> slab =
        device != nullptr ? device->allocate(whole_bytes) : map_slab(whole_bytes);
    if (!slab) throw OverLimit(fmt::format("memory: there are no {} bytes more; {}", size_bytes, s.held()));
    if (device != nullptr) device->clear(slab->data, whole_bytes);
    memory = {slab->data, [device, whole = *slab](std::byte*) {
                device != nullptr ? device->release(whole) : unmap_slab(whole);
              }};
  }
  return adopt(std::move(memory), size_bytes, category);
}

std::shared_ptr<Storage> Arena::adopt(std::shared_ptr<std::byte> memory, uint64_t size_bytes,
                                      Category category) {
  State& s = *state_;
  std::byte* data = memory.get();
  if (queue_.device() == Device::cpu) collapse_to_huge_pages(data, size_bytes);
  const uint64_t rounded = std::max(kAlignment, round_up(size_bytes, kAlignment));
  const std::lock_guard lock(s.mutex);
  check(!s.adopted.contains(data), "memory: {} bytes were adopted twice", size_bytes);
  s.reserve(rounded);
  s.adopted.emplace(data, std::move(memory));
  s.take(rounded, category);
  return std::make_shared<Storage>(*this, data, rounded, category, /*fresh=*/false);
}

void Arena::free(std::byte* data, uint64_t size_bytes, Category category) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  s.usage.current[static_cast<size_t>(category)] -= size_bytes;
  s.usage.current_total -= size_bytes;
  if (s.adopted.erase(data) > 0) {
    s.usage.reserved_total -= size_bytes;
    return;
  }
  auto next = s.free_by_address.lower_bound(data);
  // Slabs may be adjacent, but free blocks are not merged across slabs: the null device must get the same blocks.
  if (next != s.free_by_address.end() && next->first == data + size_bytes && !s.slabs.contains(next->first)) {
    size_bytes += next->second;
    auto after = std::next(next);
    s.erase_free(next);
    next = after;
  }
  if (next != s.free_by_address.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == data && !s.slabs.contains(data)) {
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
  release();
}

void Storage::release() {
  if (data_ != nullptr) arena_.free(data_, size_bytes_, category_);
  data_ = nullptr;
}

void Storage::take(Storage& from) {
  check(released() && !from.released() && size_bytes_ == from.size_bytes_ && category_ == from.category_,
        "memory: a storage of {} bytes cannot take the {} bytes of another", size_bytes_, from.size_bytes_);
  std::swap(data_, from.data_);
}

}  // namespace athanor::tensor
