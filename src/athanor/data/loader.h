// Data loader: reads the micro-batches of a rank ahead of the training loop, on a thread of its own.
//
//   Loader loader(reader, first_step, last_step, micro_batches_of_this_rank);      // indices of micro-batches, see batch.h
//   for (int64_t i = 0; i < steps * std::ssize(micro_batches_of_this_rank); ++i) train_on(loader.next());
//
// Batches come step by step; within a step, in the order of `micro_batches`. The batch that next() returns is valid until the
// next call; up to `depth` more batches are read ahead. Thread rule: next() from one thread. Errors: an error of the
// reading thread is thrown by the next() that would have returned the batch, and by every later next(). Error for a
// next() beyond the last batch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "athanor/data/batch.h"

namespace athanor::data {

class Loader {
 public:
  // The reader must outlive the loader.
  Loader(const BatchReader& reader, int64_t first_step, int64_t last_step, std::vector<int64_t> micro_batches,
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
  const std::vector<int64_t> micro_batches_;
  std::vector<Batch> ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t read_ = 0;   // batches the thread has finished
  int64_t taken_ = 0;  // batches that next() has returned
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // the last member: it starts when all others are initialized
};

}  // namespace athanor::data
