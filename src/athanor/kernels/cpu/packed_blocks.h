// Lets several threads compute rows of one block: the operand that all rows need is packed once, in the memory of the
// thread that came first, and the other threads read it there. A thread that has finished its own block helps with
// others, so processors of unequal speed all stay busy. An operand is packed twice only if two threads begin a block at
// the same time.
//
//   PackedBlocks packed;
//   queue.parallel_for(num_items, [&](int64_t item) {          // items of one block follow each other
//     const PackedBlocks::Reading b = packed.read(block_of(item), own_memory, [&](std::byte* to) { pack(to); });
//     multiply(rows_of(item), b.data());
//   });
//
// A thread's memory holds one packed block at a time. Before it packs another, read() waits until nobody reads the
// present one. Thread rule: read() from any thread; `own` is memory of the calling thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

#include "athanor/base/namespaces.h"

namespace athanor::kernels {

class PackedBlocks {
  struct Desk {
    std::byte* memory;
    int64_t block = kNone;  // the block that is completely packed in `memory`
    int readers = 0;
  };

 public:
  class Reading {
   public:
    Reading(PackedBlocks& blocks, Desk& desk) : blocks_(blocks), desk_(desk) {}
    ~Reading() {
      const std::lock_guard lock(blocks_.mutex_);
      --desk_.readers;
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    const std::byte* data() const { return desk_.memory; }

   private:
    PackedBlocks& blocks_;
    Desk& desk_;
  };

  template <typename Pack>
  Reading read(int64_t block, std::byte* own, const Pack& pack) {
    std::unique_lock lock(mutex_);
    for (Desk& desk : desks_)
      if (desk.block == block) return reading(desk);
    Desk& desk = desk_of(own);
    desk.block = kNone;
    while (desk.readers > 0) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    lock.unlock();
    pack(own);
    lock.lock();
    desk.block = block;
    return reading(desk);
  }

 private:
  static constexpr int64_t kNone = -1;

  Reading reading(Desk& desk) {
    ++desk.readers;
    return {*this, desk};
  }
  Desk& desk_of(std::byte* own) {
    for (Desk& desk : desks_)
      if (desk.memory == own) return desk;
    return desks_.emplace_back(Desk{.memory = own});
  }

  std::mutex mutex_;
  std::list<Desk> desks_;  // of the threads that have packed something
};

}  // namespace athanor::kernels
