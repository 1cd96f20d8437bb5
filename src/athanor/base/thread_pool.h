// A fixed set of threads for data-parallel loops over blocks.
//
//   pool.parallel_for(num_blocks, [&](int64_t block) { ... });
//
// Blocks are chosen by the caller with a constant size, so that no result depends on how many threads run
// them or in which order (law 5). The calling thread works too: a pool of n has n - 1 threads of its own.
// The first exception of a block is rethrown by parallel_for after all blocks have ended.
// Thread rule: one parallel_for or resize at a time per pool; a nested parallel_for runs in the caller, serially.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "athanor/base/namespaces.h"

namespace athanor::base {

class ThreadPool {
 public:
  // Each own thread calls on_start first, with its number: 1 ... num_threads - 1.
  explicit ThreadPool(int num_threads, std::function<void(int thread)> on_start = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;
  // Between two loops: other threads in place of those that it has, each started as the first ones were. Error where the
  // system refuses one; the pool is left with the calling thread alone.
  void resize(int num_threads);
  void parallel_for(int64_t num_blocks, const std::function<void(int64_t)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::base
