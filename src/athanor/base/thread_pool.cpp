#include "athanor/base/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "athanor/base/check.h"

namespace athanor::base {
namespace {
thread_local bool inside_parallel_for = false;
// A worker polls this often for the next loop before it sleeps, and in the second phase yields its processor between
// polls. Loops follow each other within microseconds inside a step, and waking a sleeping thread takes tens of
// microseconds.
constexpr int kSpins = 2000, kYields = 500;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void check_number(int num_threads) {
  check(num_threads >= 1, "thread pool: got {} threads, expected at least 1", num_threads);
}
}  // namespace

struct ThreadPool::State {
  // The blocks of a loop that a thread begins with: an equal run, the same in every loop of this length, so that a
  // thread finds in its cache what it wrote in the previous loop. Then it takes blocks that other threads have left.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  const std::function<void(int64_t)>* body = nullptr;
  std::vector<Share> shares;  // of the calling thread, then of the others
  std::atomic<uint64_t> generation{0};
  std::atomic<int> working{0};
  std::exception_ptr error;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::function<void(int thread)> on_start;

  void begin(int num_threads) {
    shares = std::vector<Share>(static_cast<size_t>(num_threads));
    stop.store(false);
    generation.store(0);
    try {
      for (int i = 1; i < num_threads; ++i)
        threads.emplace_back([this, i] {
          if (on_start) on_start(i);
          worker(static_cast<size_t>(i));
        });
    } catch (const std::system_error& refusal) {
      const size_t started = threads.size() + 1;
      end();
      fail("thread pool: the system refuses thread {} of {}: {}", started + 1, num_threads, refusal.what());
    }
  }

  void run_share(Share& share) {
    for (int64_t block; (block = share.next.fetch_add(1)) < share.end;) {
      try {
        (*body)(block);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        for (Share& other : shares) other.next.store(other.end);
      }
    }
  }
  void run_blocks(size_t thread) {
    inside_parallel_for = true;
    for (size_t i = 0; i < shares.size(); ++i) run_share(shares[(thread + i) % shares.size()]);
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

  void worker(size_t thread) {
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; spin < kSpins + kYields && generation.load() == seen && !stop.load(); ++spin)
        spin < kSpins ? pause() : std::this_thread::yield();
      if (generation.load() == seen && !stop.load()) {
        std::unique_lock lock(mutex);
        ++sleeping;
        wake.wait(lock, [&] { return generation.load() != seen || stop.load(); });
        --sleeping;
      }
      if (stop.load()) return;
      seen = generation.load();
      run_blocks(thread);
      working.fetch_sub(1);
    }
  }
};

ThreadPool::ThreadPool(int num_threads, std::function<void(int thread)> on_start)
    : state_(std::make_unique<State>()) {
  check_number(num_threads);
  state_->on_start = std::move(on_start);
  state_->begin(num_threads);
}

ThreadPool::~ThreadPool() {
  state_->end();
}

int ThreadPool::num_threads() const {
  return static_cast<int>(state_->threads.size()) + 1;
}

void ThreadPool::resize(int num_threads) {
  check_number(num_threads);
  if (num_threads == this->num_threads()) return;
  state_->end();
  state_->begin(num_threads);
  parallel_for(num_threads, [](int64_t) {});  // every thread takes part, so all have been started
}

void ThreadPool::parallel_for(int64_t num_blocks, const std::function<void(int64_t)>& body) {
  if (num_blocks <= 0) return;
  State& s = *state_;
  if (num_blocks == 1 || s.threads.empty() || inside_parallel_for) {
    for (int64_t block = 0; block < num_blocks; ++block) body(block);
    return;
  }
  s.body = &body;
  s.error = nullptr;
  const auto num_shares = static_cast<int64_t>(s.shares.size());
  for (int64_t i = 0; i < num_shares; ++i) {
    State::Share& share = s.shares[static_cast<size_t>(i)];
    share.next.store(num_blocks * i / num_shares);
    share.end = num_blocks * (i + 1) / num_shares;
  }
  s.working.store(static_cast<int>(s.threads.size()));
  {
    const std::lock_guard lock(s.mutex);
    s.generation.fetch_add(1);
  }
  if (s.sleeping.load() > 0) s.wake.notify_all();
  s.run_blocks(0);
  // Yield once it takes long: on a machine with more threads than processors the others need this one.
  for (int spin = 0; s.working.load() > 0; ++spin) spin < kSpins ? pause() : std::this_thread::yield();
  if (s.error) std::rethrow_exception(s.error);
}

}  // namespace athanor::base
