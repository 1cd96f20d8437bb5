// Reads the grains of a rank ahead of the training loop, on a thread of its own.
//
//   Loader loader(reader, first_step, last_step, grains_of_this_rank);
//   for (step ...) for (grain ...) train_on(loader.next());
//
// Batches come in the order step by step, within a step in the order of `grains`. The batch that next()
// returns stays until the next call; up to depth more lie ready behind it. Thread rule: next() from one
// thread. Errors of the reading thread are thrown by the next() that would have returned that batch, and
// again by every later one. A next() beyond the last batch is an Error.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "athanor/data/batch.h"

namespace athanor {

class Loader {
 public:
  // The reader must outlive the loader.
  Loader(const BatchReader& reader, int64_t first_step, int64_t last_step, std::vector<int64_t> grains,
         int depth = 4);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Batch& next();
  int64_t num_batches() const { return num_batches_; }

 private:
  void run();

  const BatchReader& reader_;
  const int64_t first_step_, num_batches_;
  const std::vector<int64_t> grains_;
  std::vector<Batch> ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t read_ = 0;   // batches the thread has finished
  int64_t taken_ = 0;  // batches that next() has returned
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace athanor
