// The emulated device's threads: who they are, how they meet, and what becomes of a barrier that some do not come to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "cuda/emulated/threads.h"

// At once, instead of in a stream.
void athanor::kernels::emulated::submit(CudaCalls::Stream* /*stream*/, std::function<void()> work) {
  std::exchange(work, nullptr)();
}

namespace athanor::tests::emulated_threads_test {
namespace {

using emulated::submit_kernel;

TEST(EmulatedThreads, KnowTheirBlockAndThemselves) {
  for (const int threads : {1, 2, 63, 256}) {
    std::vector<int> seen;
    submit_kernel(nullptr, 3, threads, 0, [&] {
      EXPECT_EQ(blockDim.x, static_cast<unsigned>(threads));
      seen.push_back(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x));
    });
    std::vector<int> expected;
    for (int i = 0; i < 3 * threads; ++i) expected.push_back(i);
    EXPECT_EQ(seen, expected) << threads << " threads";
  }
}

TEST(EmulatedThreads, MeetAtEveryBarrier) {
  for (const int threads : {1, 31, 256}) {
    std::vector<unsigned> at(static_cast<size_t>(threads)), sums(at.size());
    submit_kernel(nullptr, 2, threads, 0, [&] {
      const unsigned next = (threadIdx.x + 1) % blockDim.x;
      sums[threadIdx.x] = 0;
      for (unsigned round = 0; round < 5; ++round) {
        at[threadIdx.x] = round * threadIdx.x;
        __syncthreads();
        sums[threadIdx.x] += at[next];
        __syncthreads();
      }
    });
    for (size_t i = 0; i < sums.size(); ++i)
      EXPECT_EQ(sums[i], 10 * ((i + 1) % sums.size())) << i << " of " << threads << " threads";
  }
}

TEST(EmulatedThreads, ShareTheirBlocksMemory) {
  unsigned sum = 0;
  submit_kernel(nullptr, 1, 64, 64 * sizeof(unsigned), [&] {
    auto* shared = reinterpret_cast<unsigned*>(emulated::shared_memory());
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (unsigned i = 0; i < 64; ++i) sum += shared[i];
  });
  EXPECT_EQ(sum, 63u * 64 / 2);
}

TEST(EmulatedThreads, BlocksThatNoDeviceRunsAreRefused) {
  const auto never = [] { ADD_FAILURE() << "ran"; };
  for (const int threads : {0, 257})
    EXPECT_STREQ(submit_kernel(nullptr, 1, threads, 0, never), "a block of no or too many threads asked for");
  EXPECT_STREQ(submit_kernel(nullptr, 1, 1, 1 << 20, never), "too much shared memory asked for");
}

TEST(EmulatedThreads, TwoThreadsOfTheHostRunABlockEach) {
  const auto count = [](unsigned* ends) {
    submit_kernel(nullptr, 100, 32, 0, [ends] {
      __syncthreads();
      *ends += threadIdx.x;
    });
  };
  unsigned ends = 0, others = 0;
  std::thread other(count, &others);
  count(&ends);
  other.join();
  EXPECT_EQ(ends, 100u * 31 * 32 / 2);
  EXPECT_EQ(others, ends);
}

TEST(EmulatedThreads, ABarrierThatSomeDoNotComeToIsAnError) {
  for (const unsigned missing : {0u, 3u, 7u}) {
    try {
      submit_kernel(nullptr, 1, 8, 0, [&] {
        if (threadIdx.x == missing) return;
        __syncthreads();
      });
      FAIL() << "no error without thread " << missing;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("7 threads of a block wait at a barrier, 1 do not come"));
    }
    int ran = 0;  // and the next block begins as if nothing had been
    submit_kernel(nullptr, 1, 8, 0, [&] {
      __syncthreads();
      ++ran;
    });
    EXPECT_EQ(ran, 8);
  }
}

}  // namespace
}  // namespace athanor::tests::emulated_threads_test
