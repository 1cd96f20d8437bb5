#include "athanor/data/loader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data {
namespace {

constexpr std::chrono::milliseconds kPatience{20};  // between two looks for data that have not come yet

}  // namespace

// One buffer of the ring is the batch that the caller holds; the others are ready or being filled.
Loader::Loader(const BatchReader& reader, int64_t first_step, int64_t last_step,
               std::vector<int64_t> micro_batches, int depth)
    : reader_(reader),
      first_step_(first_step),
      num_batches_(std::max<int64_t>(last_step - first_step + 1, 0) *
                   static_cast<int64_t>(micro_batches.size())),
      micro_batches_(std::move(micro_batches)),
      ring_(static_cast<size_t>(std::max(depth, 1)) + 1) {
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::run() {
  const auto slots = static_cast<int64_t>(ring_.size());
  try {
    for (int64_t i = 0; i < num_batches_; ++i) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || i < std::max<int64_t>(taken_ - 1, 0) + slots; });
        if (stop_) return;
      }
      const auto per_step = static_cast<int64_t>(micro_batches_.size());
      const int64_t step = first_step_ + i / per_step;
      while (!reader_.has(step)) {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, kPatience, [&] { return stop_; })) return;
      }
      reader_.read(step, micro_batches_[static_cast<size_t>(i % per_step)],
                   ring_[static_cast<size_t>(i % slots)]);
      {
        const std::lock_guard lock(mutex_);
        read_ = i + 1;
      }
      changed_.notify_all();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

const Batch& Loader::next() {
  std::unique_lock lock(mutex_);
  check(taken_ < num_batches_, "loader: all {} batches are taken", num_batches_);
  const int64_t index = taken_++;  // from here on the batch returned before may be overwritten
  changed_.notify_all();
  changed_.wait(lock, [&] { return read_ > index || error_ != nullptr; });
  if (read_ <= index) {
    taken_ = index;
    std::rethrow_exception(error_);
  }
  return ring_[static_cast<size_t>(index % static_cast<int64_t>(ring_.size()))];
}

}  // namespace athanor::data
