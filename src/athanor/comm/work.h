// What the calls of a Group return: the handle of one that has started, and of one that was just made.
//
//   Work work = group.all_reduce(data, count, Dtype::f32, "grads.bucket3");   // starts, in the background
//   work.wait();                                                            // throws what went wrong
//   group.all_reduce(data, count, Dtype::f32, "norm").wait();                 // runs in this thread, wakes no other
//   group.all_reduce(data, count, Dtype::f32, "dw").wait(queue);              // what is submitted to queue next sees it
//
// wait(queue) is for results that only the queue's kernels and copies use. Where the data move on a device's stream, the
// queue waits for them in place of the host: the call returns when all ranks have started it and the data are under
// way. Elsewhere it is wait(). What fails later is thrown by the group's next call. The buffers may be freed into the
// queue's arena, since what uses their memory next is submitted after the wait.
// Errors: the group's. Thread rule: a Work is waited for by any thread; a NewWork is of the thread that made it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "athanor/comm/call.h"
#include "athanor/tensor/forward.h"

namespace athanor::comm {

// The handle of a started collective. Dropping it without wait() waits in the destructor (errors are lost).
class Work {
 public:
  class Impl {
   public:
    virtual ~Impl() = default;
    virtual void wait() = 0;
    virtual void wait_on(Queue&) { wait(); }
    virtual bool done() const = 0;
  };
  Work() = default;  // already done
  explicit Work(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  void wait() {
    if (impl_) std::exchange(impl_, nullptr)->wait();
  }
  void wait(Queue& queue) {
    if (impl_) std::exchange(impl_, nullptr)->wait_on(queue);
  }
  bool done() const { return !impl_ || impl_->done(); }

 private:
  std::shared_ptr<Impl> impl_;
};

class Group;

enum class Start : uint8_t {
  in_background,  // a thread of the group is woken for it
  at_once         // the caller waits at once, and runs it
};

// A call that was just made and has not started: `group.all_reduce(...).wait()` runs it in this thread, without waking
// another; kept as a Work it runs in the background. `auto` would keep it from starting, so its wait() does not compile
// then.
class [[nodiscard]] NewWork {
 public:
  NewWork(Group& group, Call call, Buffers buffers)
      : group_(&group), call_(std::move(call)), buffers_(std::move(buffers)) {}
  NewWork(const NewWork&) = delete;
  NewWork& operator=(const NewWork&) = delete;
  ~NewWork();  // runs it, if nobody has; errors are lost
  operator Work() && { return start(Start::in_background); }
  void wait() && { start(Start::at_once).wait(); }
  void wait(Queue& queue) && { start(Start::at_once).wait(queue); }

 private:
  Work start(Start how);
  Group* group_;  // null: has started
  Call call_;
  Buffers buffers_;
};

}  // namespace athanor::comm
