// Memory: what is partitioned does not overlap, what repeats needs nothing new, and a dry run predicts all of it.
#include "athanor/tensor/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "athanor/tensor/slab.h"
#include "athanor/tensor/tensor.h"

namespace athanor::tests::arena_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// No kernels: these tests only allocate.
struct Memory {
  explicit Memory(Device device, int threads = 2)
      : pool(threads), queue(device, Isa::generic, &pool, nullptr), arena(queue) {}
  ThreadPool pool;
  Queue queue;
  Arena arena;
};

// A step's worth of allocations and frees of many sizes in an order that the seed decides.
void churn(Arena& arena, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::shared_ptr<Storage>> live;
  for (int i = 0; i < 400; ++i) {
    if (live.size() > 30 || (!live.empty() && random() % 3 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      live.pop_back();
    } else {
      const uint64_t size = random() % 10 == 0 ? random() % (20 * kMiB) : random() % (300 << 10);
      live.push_back(arena.allocate(size, static_cast<Category>(random() % kNumCategories)));
    }
  }
}

TEST(Arena, WhatIsInUseDoesNotOverlap) {
  Memory memory(Device::cpu);
  std::mt19937 random(3);
  std::vector<std::pair<std::shared_ptr<Storage>, int>> live;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() > 40) {
      const size_t victim = random() % live.size();
      const auto& [storage, mark] = live[victim];
      const auto* bytes = reinterpret_cast<const unsigned char*>(storage->data());
      ASSERT_TRUE(std::all_of(bytes, bytes + storage->size_bytes(),
                              [mark = mark](unsigned char byte) { return byte == mark; }));
      std::swap(live[victim], live.back());
      live.pop_back();
    }
    auto storage = memory.arena.allocate(random() % 5000, Category::workspace);
    EXPECT_EQ(reinterpret_cast<uint64_t>(storage->data()) % 64, 0u);
    std::memset(storage->data(), i % 251, storage->size_bytes());
    live.emplace_back(std::move(storage), i % 251);
  }
}

TEST(Arena, WhatRepeatsNeedsNothingNew) {
  Memory memory(Device::cpu);
  churn(memory.arena, 1);
  const MemoryUsage first = memory.arena.usage();
  EXPECT_EQ(first.slabs, 1u);
  EXPECT_LT(first.reserved_total, first.peak_total * 3 / 2);
  EXPECT_EQ(first.current_total, 0u);
  for (int step = 0; step < 4; ++step) churn(memory.arena, 1);
  const MemoryUsage later = memory.arena.usage();
  EXPECT_EQ(later.slabs, first.slabs);
  EXPECT_EQ(later.reserved_total, first.reserved_total);
  EXPECT_EQ(later.peak_total, first.peak_total);
}

TEST(Arena, ADryRunPredictsTheSlabs) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    Memory null(Device::null), cpu(Device::cpu);
    for (int step = 0; step < 2; ++step) {
      churn(null.arena, seed + static_cast<unsigned>(step));
      churn(cpu.arena, seed + static_cast<unsigned>(step));
    }
    EXPECT_EQ(cpu.arena.usage().reserved_total, null.arena.usage().reserved_total);
    EXPECT_EQ(cpu.arena.usage().slabs, null.arena.usage().slabs);
    EXPECT_EQ(cpu.arena.usage().peak, null.arena.usage().peak);
  }
}

TEST(Arena, FreshMemoryIsZeroAndUsedMemoryIsNotCalledFresh) {
  for (const int threads : {1, 3}) {
    Memory memory(Device::cpu, threads);
    std::mt19937 random(5);
    std::vector<std::shared_ptr<Storage>> live;
    int fresh = 0, used = 0;
    for (int i = 0; i < 300; ++i) {
      auto storage = memory.arena.allocate(random() % (400 << 10), Category::optimizer);
      (storage->fresh() ? fresh : used) += 1;
      if (storage->fresh()) {
        ASSERT_TRUE(std::all_of(storage->data(), storage->data() + storage->size_bytes(),
                                [](std::byte byte) { return byte == std::byte{0}; }));
      }
      std::memset(storage->data(), 0xff, storage->size_bytes());
      live.push_back(std::move(storage));
      if (i % 3 == 0) live.erase(live.begin() + static_cast<int64_t>(random() % live.size()));
    }
    EXPECT_GT(fresh, 50);
    EXPECT_GT(used, 50);
  }
}

TEST(Arena, ZerosAreZeroInUsedMemoryToo) {
  Memory memory(Device::cpu);
  for (const int64_t count : {0, 1, 17, 300000, 3000001}) {
    {
      Tensor x = empty(memory.arena, {count}, Dtype::f32, Category::activations);
      std::memset(x.raw(), 0xff, x.size_bytes());
    }
    const Tensor x = zeros(memory.arena, {count}, Dtype::f32, Category::activations);
    const auto* values = x.data<float>();
    EXPECT_TRUE(std::all_of(values, values + count, [](float value) { return value == 0.0f; })) << count;
  }
}

TEST(Arena, ManyThreadsAllocateAtATime) {
  Memory memory(Device::cpu);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&, i] { churn(memory.arena, i); });
  churn(memory.arena, 9);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory.arena.usage().current_total, 0u);
}

TEST(Arena, AllocatesInsideALoopOfItsOwnPool) {
  Memory memory(Device::cpu, 3);
  memory.pool.parallel_for(50, [&](int64_t block) {
    const auto storage = memory.arena.allocate(static_cast<uint64_t>(block) * 100000, Category::workspace);
    std::memset(storage->data(), 1, storage->size_bytes());
  });
  EXPECT_EQ(memory.arena.usage().current_total, 0u);
}

TEST(Arena, RefusesWhatExceedsTheLimitAndNamesWhatIsHeld) {
  ThreadPool pool(1);
  Queue queue(Device::cpu, Isa::generic, &pool, nullptr);
  Arena arena(queue, 40 * kMiB);
  const auto held = arena.allocate(100, Category::gradients);
  try {
    arena.allocate(40 * kMiB, Category::parameters);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gradients 128"), std::string::npos) << error.what();
  }
  EXPECT_EQ(arena.usage().current_total, 128u);
}

TEST(Slab, ComesInWholeHugePagesAndZero) {
  const auto slab = map_slab(3 * kHugePage);
  ASSERT_TRUE(slab.has_value());
  EXPECT_EQ(reinterpret_cast<uint64_t>(slab->data) % kHugePage, 0u);
  back_with_set_aside_pages(slab->data, kHugePage);  // usually there are none: the slab must be as it was
  slab->data[5] = std::byte{7};
  populate(slab->data, slab->size_bytes);
  EXPECT_EQ(slab->data[5], std::byte{7});
  slab->data[5] = std::byte{0};
  EXPECT_TRUE(std::all_of(slab->data, slab->data + slab->size_bytes,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  unmap_slab(*slab);
  EXPECT_FALSE(map_slab(uint64_t{1} << 60).has_value());
}

}  // namespace
}  // namespace athanor::tests::arena_test
