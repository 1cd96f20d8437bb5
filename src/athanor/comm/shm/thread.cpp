#include "athanor/comm/shm/thread.h"

#include <sys/mman.h>

#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/shared_memory.h"
#include "athanor/comm/shm/shm_world.h"

namespace athanor::comm::shm {

namespace {

// Only touched pages take memory.
std::shared_ptr<void> map_zeroed(size_t size_bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {memory, [size_bytes](void* address) { munmap(address, size_bytes); }};
}

// The arenas of groups, each of which the first rank to ask for it allocates for all. They live until they are released.
class ThreadMemory {
 public:
  std::shared_ptr<void> map_arena(uint64_t range, size_t size_bytes) {
    const std::lock_guard lock(mutex_);
    auto& arena = arenas_[range];
    if (!arena) arena = map_zeroed(size_bytes);
    return arena;
  }
  void release_arena(uint64_t range) {
    const std::lock_guard lock(mutex_);
    arenas_.erase(range);
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<void>> arenas_;
};

// Threads address each other's memory as it is.
RankMemory memory_of_thread() {
  return {.allocate = [](size_t size_bytes) { return map_shared_memory(size_bytes); },
          .place_of =
              [](const std::byte* own) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(own)); },
          .open =
              [](uint64_t place, size_t) {
                return std::shared_ptr<std::byte>(
                    std::shared_ptr<void>(), reinterpret_cast<std::byte*>(static_cast<uintptr_t>(place)));
              }};
}

// The transports of all ranks over new memory: an arena, then `more_bytes` for other use.
std::vector<SlotGroup::Transport> make_transports(int size, const GroupOptions& options, size_t more_bytes) {
  const std::shared_ptr<void> memory = map_zeroed(SlotArena::bytes(size, options.slot_bytes) + more_bytes);
  const SlotArena arena = SlotArena::create(memory.get(), size, options.slot_bytes);
  std::vector<SlotGroup::Transport> transports;
  for (int rank = 0; rank < size; ++rank) {
    arena.set_presence(rank, Presence::joined);
    transports.push_back(
        {.arena = arena,
         .memory = memory,
         .death_of = [](int) { return std::string(); },  // a thread cannot die without its process
         .rank_memory = memory_of_thread()});
  }
  return transports;
}

// `Member` is Group or World.
template <typename Member>
void run_members(const std::vector<std::unique_ptr<Member>>& members,
                 const std::function<void(Member&)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(members.size());
  for (const auto& each : members) {
    threads.emplace_back([&, member = each.get()] {
      try {
        body(*member);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        member->abort(error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace

std::vector<std::unique_ptr<Group>> make_thread_groups(int size, const GroupOptions& options) {
  auto transports = make_transports(size, options, 0);
  std::vector<std::unique_ptr<Group>> groups;
  groups.reserve(transports.size());
  for (auto& transport : transports)
    groups.push_back(
        std::make_unique<SlotGroup>(std::move(transport), static_cast<int>(groups.size()), options));
  return groups;
}

std::vector<std::unique_ptr<World>> make_thread_worlds(int size, const GroupOptions& options) {
  const auto memory = std::make_shared<ThreadMemory>();
  const SlotWorld::Ranges ranges{
      .map = [memory](uint64_t range, size_t bytes) { return memory->map_arena(range, bytes); },
      .release = [memory](uint64_t range, size_t) { memory->release_arena(range); }};
  const size_t arena_bytes = SlotArena::bytes(size, options.slot_bytes);
  auto transports = make_transports(size, options, GroupDirectory::bytes());
  std::vector<std::unique_ptr<World>> worlds;
  worlds.reserve(transports.size());
  for (auto& transport : transports) {
    void* directory = static_cast<std::byte*>(transport.memory.get()) + arena_bytes;
    worlds.push_back(std::make_unique<SlotWorld>(std::move(transport), directory, ranges,
                                                 static_cast<int>(worlds.size()), options));
  }
  return worlds;
}

void run_ranks(const std::vector<std::unique_ptr<Group>>& groups, const std::function<void(Group&)>& body) {
  run_members(groups, body);
}

void run_ranks(const std::vector<std::unique_ptr<World>>& worlds, const std::function<void(World&)>& body) {
  run_members(worlds, body);
}

}  // namespace athanor::comm::shm
