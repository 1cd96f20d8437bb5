#include "athanor/comm/call_queue.h"

#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/comm/own_thread.h"

namespace athanor::comm {

class CallQueue::Handle final : public Work::Impl {
 public:
  Handle(CallQueue* queue, std::shared_ptr<Started> started) : queue_(queue), started_(std::move(started)) {}
  ~Handle() override {
    try {
      if (!left_) wait();
    } catch (const Failure&) {  // a destructor cannot throw; the group's next call throws it again
    }
  }
  // The queue runs everything before its end, so after its end `done` is set and the queue is not used.
  void wait() override {
    if (!done()) queue_->wait(*started_);
    if (started_->error) started_->error->raise();
  }
  void wait_on(Queue& queue) override {
    left_ = !done() && queue_->wait_on(queue, *started_);
    if (!left_) wait();
  }
  bool done() const override { return started_->done.load(std::memory_order_acquire); }

 private:
  CallQueue* queue_;
  bool left_ = false;  // to a device's queue, which waits
  std::shared_ptr<Started> started_;
};

CallQueue::CallQueue(const GroupOptions& options, FailureOf failure_of, LetWait let_wait)
    : on_done_(options.on_done),
      on_waited_(options.on_waited),
      now_ns_(options.now_ns),
      failure_of_(std::move(failure_of)),
      let_wait_(std::move(let_wait)) {
  thread_ = make_own_thread(options, [this] { run_thread(); });
}

CallQueue::~CallQueue() {
  finish();
}

void CallQueue::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

Work CallQueue::start(std::string name, std::function<void()> body, Start how) {
  auto started = std::make_shared<Started>();
  started->name = std::move(name);
  started->body = std::move(body);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(started);
  }
  if (how == Start::in_background) work_.notify_one();
  return Work(std::make_shared<Handle>(this, std::move(started)));
}

void CallQueue::wait(Started& started) {
  const int64_t start_ns = on_waited_ ? now_ns_() : 0;
  std::unique_lock lock(mutex_);
  while (!started.done.load(std::memory_order_relaxed)) {
    if (!running_) {
      run_front(lock);  // this thread is sooner than the queue's thread, which would have to wake up
    } else {
      finished_.wait(lock);
    }
  }
  if (on_waited_) on_waited_(now_ns_() - start_ns);
}

// Returns whether `queue` waits. The lock keeps the next body from submitting anything before.
bool CallQueue::wait_on(Queue& queue, Started& started) {
  if (!let_wait_) return false;
  std::unique_lock lock(mutex_);
  work_.notify_one();  // a body that this thread ran would keep it until its end
  finished_.wait(lock, [&] { return started.done || started.on_stream; });
  if (started.done) return false;
  let_wait_(queue);
  return true;
}

void CallQueue::on_stream() {
  const std::lock_guard lock(mutex_);
  queue_.front()->on_stream = true;
  finished_.notify_all();
}

void CallQueue::run_front(std::unique_lock<std::mutex>& lock) {
  running_ = true;
  const std::shared_ptr<Started> started = queue_.front();
  lock.unlock();
  const int64_t start_ns = now_ns();
  try {
    started->body();
    if (on_done_) on_done_(started->name, start_ns, now_ns());
  } catch (const std::exception& error) {
    started->error = failure_of_(error);
  }
  started->body = nullptr;
  lock.lock();
  started->done.store(true, std::memory_order_release);
  queue_.pop_front();
  running_ = false;
  finished_.notify_all();
  if (!queue_.empty() || stopping_) work_.notify_one();
}

void CallQueue::run_thread() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return !running_ && (stopping_ || !queue_.empty()); });
    if (queue_.empty()) return;
    run_front(lock);
  }
}

}  // namespace athanor::comm
