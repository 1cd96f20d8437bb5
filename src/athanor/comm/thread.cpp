#include "athanor/comm/thread.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "athanor/base/error.h"
#include "athanor/comm/slot_group.h"

namespace athanor {

std::vector<std::unique_ptr<Group>> make_thread_groups(int size, const GroupOptions& options) {
  const size_t bytes = (SlotArena::bytes(size, options.slot_bytes) + 4095) / 4096 * 4096;
  const std::shared_ptr<void> memory(std::aligned_alloc(4096, bytes), std::free);
  if (!memory) throw std::bad_alloc();
  const SlotArena arena = SlotArena::create(memory.get(), size, options.slot_bytes);
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < size; ++rank) {
    arena.set_presence(rank, Presence::joined);
    // A thread cannot die without its process.
    groups.push_back(
        std::make_unique<SlotGroup>(arena, memory, rank, options, [](int) { return std::string(); }));
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
