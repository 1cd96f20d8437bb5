#include "athanor/base/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "athanor/base/check.h"

namespace athanor {
namespace {
thread_local bool inside_parallel_for = false;
// A worker looks this many times for the next loop before it sleeps: loops follow each other within
// microseconds inside a step, and waking a sleeping thread costs more than the loop itself.
constexpr int kSpins = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
}  // namespace

struct ThreadPool::State {
  // One loop. `ticket` packs (loop number, next block): taking a block of a loop that has already ended is
  // impossible, because the loop number no longer matches.
  const std::function<void(int64_t)>* body = nullptr;
  int64_t num_blocks = 0;
  std::atomic<uint64_t> generation{0};
  std::atomic<int64_t> next{0};
  std::atomic<int> working{0};
  std::exception_ptr error;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;

  void run_blocks() {
    inside_parallel_for = true;
    for (int64_t block; (block = next.fetch_add(1)) < num_blocks;) {
      try {
        (*body)(block);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(num_blocks);
      }
    }
    inside_parallel_for = false;
  }

  void end() {
    {
      const std::lock_guard lock(mutex);
      stop.store(true);
    }
    wake.notify_all();
    for (auto& thread : threads) thread.join();
    threads.clear();
  }

  void worker() {
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; spin < kSpins && generation.load() == seen && !stop.load(); ++spin) pause();
      if (generation.load() == seen && !stop.load()) {
        std::unique_lock lock(mutex);
        ++sleeping;
        wake.wait(lock, [&] { return generation.load() != seen || stop.load(); });
        --sleeping;
      }
      if (stop.load()) return;
      seen = generation.load();
      run_blocks();
      working.fetch_sub(1);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  check(num_threads >= 1, "thread pool: got {} threads, expected at least 1", num_threads);
  try {
    for (int i = 1; i < num_threads; ++i) state_->threads.emplace_back([s = state_.get()] { s->worker(); });
  } catch (const std::system_error& error) {
    const size_t started = state_->threads.size() + 1;
    state_->end();
    fail("thread pool: the system refuses thread {} of {}: {}", started + 1, num_threads, error.what());
  }
}

ThreadPool::~ThreadPool() {
  state_->end();
}

int ThreadPool::num_threads() const {
  return static_cast<int>(state_->threads.size()) + 1;
}

void ThreadPool::parallel_for(int64_t num_blocks, const std::function<void(int64_t)>& body) {
  if (num_blocks <= 0) return;
  State& s = *state_;
  if (num_blocks == 1 || s.threads.empty() || inside_parallel_for) {
    for (int64_t block = 0; block < num_blocks; ++block) body(block);
    return;
  }
  s.body = &body;
  s.num_blocks = num_blocks;
  s.error = nullptr;
  s.next.store(0);
  s.working.store(static_cast<int>(s.threads.size()));
  {
    const std::lock_guard lock(s.mutex);
    s.generation.fetch_add(1);
  }
  if (s.sleeping.load() > 0) s.wake.notify_all();
  s.run_blocks();
  // Yield once it takes long: on a machine with more threads than processors the others need this one.
  for (int spin = 0; s.working.load() > 0; ++spin) spin < kSpins ? pause() : std::this_thread::yield();
  if (s.error) std::rethrow_exception(s.error);
}

}  // namespace athanor
