// A queue of started collectives, which run one at a time in the order of start(). They run on the queue's own thread,
// or on a thread that waits for one, whichever is first.
//
//   CallQueue queue(group_options, [&](const std::exception& error) { return the group's failure; });
//   Work work = queue.start("grads.bucket3", [=] { ... });
//   work.wait();                                   // throws the failure that the body's exception became
//
// A body that has submitted its work to a stream says so by on_stream(). From then on a queue of the device can wait for
// that work by Work::wait(Queue&), while the body watches its end on the queue's thread.
//
// finish(), which the destructor calls, runs all that was started. Thread rule: start() from one thread at a time,
// wait() from any; bodies never run concurrently.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "athanor/comm/group.h"
#include "athanor/comm/options.h"
#include "athanor/comm/shm/arena.h"

namespace athanor::comm {

class CallQueue {
 public:
  // Turns a body's exception into the failure that each wait() throws.
  using FailureOf = std::function<GroupFailure(const std::exception& error)>;
  using LetWait = std::function<void(Queue& queue)>;  // for what the running body has submitted
  // Uses options.on_thread, on_done and on_waited. `let_wait`: if bodies call on_stream().
  CallQueue(const GroupOptions& options, FailureOf failure_of, LetWait let_wait = {});
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // At once: the caller waits for it next, so the queue's thread is not woken.
  Work start(std::string name, std::function<void()> body, Start how = Start::in_background);
  void on_stream();  // by a running body
  void finish();     // no start() after it

 private:
  // Shared by the queue and the user's handle.
  struct Started {
    std::string name;
    std::function<void()> body;
    std::atomic<bool> done = false;
    bool on_stream = false;
    std::optional<GroupFailure> error;  // written before done
  };
  class Handle;
  void wait(Started& started);
  bool wait_on(Queue& queue, Started& started);
  void run_front(std::unique_lock<std::mutex>& lock);
  void run_thread();

  std::function<void(const std::string& name, int64_t start_ns, int64_t end_ns)> on_done_;
  std::function<void(int64_t waited_ns)> on_waited_;
  std::function<int64_t()> now_ns_;  // of on_waited
  FailureOf failure_of_;
  LetWait let_wait_;
  std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::deque<std::shared_ptr<Started>> queue_;
  bool running_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace athanor::comm
