#include "athanor/kernels/cpu/packed_blocks.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "athanor/base/thread_pool.h"

namespace athanor::tests::packed_blocks_test {
namespace {

using Memory = std::array<std::byte, sizeof(int64_t)>;

int64_t number_in(const std::byte* data) {
  int64_t number = 0;
  std::memcpy(&number, data, sizeof number);
  return number;
}

// What is read is the block that was asked for, however threads and blocks meet.
TEST(PackedBlocks, EveryItemReadsItsOwnBlock) {
  constexpr int kThreads = 3, kBlocks = 12, kItems = 5;
  for (int round = 0; round < 4; ++round) {
    ThreadPool pool(kThreads);
    PackedBlocks packed;
    std::vector<std::atomic<int>> packs(kBlocks);
    std::atomic<int> wrong{0};
    pool.parallel_for(int64_t{kBlocks} * kItems, [&](int64_t item) {
      thread_local Memory memory;
      const int64_t block = item / kItems;
      const PackedBlocks::Reading reading = packed.read(block, memory.data(), [&](std::byte* to) {
        std::memcpy(to, &block, sizeof block);
        ++packs[static_cast<size_t>(block)];
      });
      for (int look = 0; look < 5; ++look) {  // others go on meanwhile
        std::this_thread::yield();
        wrong += number_in(reading.data()) != block;
      }
    });
    EXPECT_EQ(wrong, 0);
    for (const auto& count : packs) {
      EXPECT_GE(count, 1);
      EXPECT_LE(count, kThreads);
    }
  }
}

TEST(PackedBlocks, OneThreadPacksEachBlockOnce) {
  PackedBlocks packed;
  Memory memory;
  std::vector<int64_t> order;
  for (const int64_t block : {3, 3, 3, 7, 7, 0}) {
    const auto reading = packed.read(block, memory.data(), [&](std::byte* to) {
      std::memcpy(to, &block, sizeof block);
      order.push_back(block);
    });
    EXPECT_EQ(number_in(reading.data()), block);
  }
  EXPECT_EQ(order, (std::vector<int64_t>{3, 7, 0}));
}

}  // namespace
}  // namespace athanor::tests::packed_blocks_test
