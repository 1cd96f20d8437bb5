#include "athanor/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "athanor/base/check.h"

namespace athanor::tests::thread_pool_test {
namespace {

TEST(ThreadPool, RunsEveryBlockOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t blocks = 0; blocks < 50; ++blocks) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(blocks));
      pool.parallel_for(blocks, [&](int64_t block) { ++counts[static_cast<size_t>(block)]; });
      for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, HasAnotherNumberOfThreadsFromALoopOn) {
  std::atomic<int> started{0};
  ThreadPool pool(2, [&](int thread) { started += 1 << (4 * thread); });
  pool.parallel_for(2, [](int64_t) {});  // until the first ones have started
  for (const int threads : {5, 1, 3, 3}) {
    started = 0;
    const bool is_new = threads != pool.num_threads();
    pool.resize(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    int each_once = 0;
    for (int thread = 1; thread < threads; ++thread) each_once += 1 << (4 * thread);
    EXPECT_EQ(started.load(), is_new ? each_once : 0) << threads;
    std::vector<std::atomic<int>> counts(100);
    pool.parallel_for(100, [&](int64_t block) { ++counts[static_cast<size_t>(block)]; });
    for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
  }
  EXPECT_THROW(pool.resize(0), Error);
}

TEST(ThreadPool, NestedLoopsRunSerially) {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  pool.parallel_for(5, [&](int64_t) { pool.parallel_for(7, [&](int64_t) { ++total; }); });
  EXPECT_EQ(total.load(), 35);
}

TEST(ThreadPool, RethrowsTheErrorOfABlockAndGoesOn) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.parallel_for(10, [](int64_t block) { check(block != 3, "block {}", block); }), Error);
  std::atomic<int> total{0};
  pool.parallel_for(10, [&](int64_t) { ++total; });
  EXPECT_EQ(total.load(), 10);
}

}  // namespace
}  // namespace athanor::tests::thread_pool_test
