#include "athanor/comm/thread.h"

#include <sys/mman.h>

#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/comm/slot_group.h"

namespace athanor {

namespace {

// The regions of allocate_shared: made by the first rank that asks for one.
class ThreadRegions {
 public:
  std::shared_ptr<std::byte> map(uint64_t offset, size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    auto& region = regions_[offset];
    auto memory = region.lock();
    if (!memory) region = memory = map_shared_memory(size_bytes);
    return memory;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<std::byte>> regions_;
};

// Only the pages that are touched are memory.
std::shared_ptr<void> map_zeroed(size_t size_bytes) {
  void* memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {memory, [size_bytes](void* address) { munmap(address, size_bytes); }};
}

}  // namespace

std::vector<std::unique_ptr<Group>> make_thread_groups(int size, const GroupOptions& options) {
  const std::shared_ptr<void> memory = map_zeroed(SlotArena::bytes(size, options.slot_bytes));
  const SlotArena arena = SlotArena::create(memory.get(), size, options.slot_bytes);
  const auto regions = std::make_shared<ThreadRegions>();
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < size; ++rank) {
    arena.set_presence(rank, Presence::joined);
    groups.push_back(std::make_unique<SlotGroup>(
        SlotGroup::Transport{
            .arena = arena,
            .memory = memory,
            .death_of = [](int) { return std::string(); },  // a thread cannot die without its process
            .map_shared = [regions](uint64_t offset, size_t part) { return regions->map(offset, part); },
            .release_advice = MADV_DONTNEED},
        rank, options));
  }
  return groups;
}

void run_ranks(const std::vector<std::unique_ptr<Group>>& groups, const std::function<void(Group&)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(groups.size());
  for (const auto& group : groups) {
    threads.emplace_back([&, group = group.get()] {
      try {
        body(*group);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        group->abort(error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace athanor
