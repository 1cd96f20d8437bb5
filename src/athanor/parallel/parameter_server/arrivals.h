// Waits for whichever of several messages arrives first: how a parameter server serves many workers.
//
//   Arrivals arrivals(group, /*senders=*/3);
//   for (int worker : {0, 1, 2}) arrivals.expect(worker, group.recv(header(worker), ...));
//   const int first = arrivals.next();      // its message has arrived; the others are still expected
//   arrivals.wait_for(2);                   // or: until the message of sender 2 has arrived
//
// One thread per sender waits for its message. next() and wait_for() throw the group's error if a sender has died, has
// failed or is late. The destructor aborts the group if messages are still expected: a rank that stops listening has
// left. Thread rule: one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor::parallel::parameter_server {

class Arrivals {
 public:
  Arrivals(Group& group, int senders);
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  bool expects(int sender) const { return senders_[static_cast<size_t>(sender)].expected; }
  // At most one message of a sender is expected at a time, until next() or wait_for() has returned it.
  void expect(int sender, Work work);
  int next();
  void wait_for(int sender);

 private:
  struct Sender {
    Work work;
    bool expected = false;  // used by the caller's thread: not returned yet
    bool waiting = false;   // guarded by mutex_: the sender's thread has `work` to wait for
    std::thread thread;
  };
  void run(int sender);

  Group& group_;
  std::vector<Sender> senders_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> arrived_;
  std::exception_ptr error_;
  bool stopping_ = false;
};

}  // namespace athanor::parallel::parameter_server
