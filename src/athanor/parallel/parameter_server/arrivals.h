// Which of several messages comes first: what a server that serves many workers waits for.
//
//   Arrivals arrivals(group, /*senders=*/3);
//   for (int worker : {0, 1, 2}) arrivals.expect(worker, group.recv(header(worker), ...));
//   const int first = arrivals.next();      // its message is there; the others are still expected
//   arrivals.wait_for(2);                   // or: until that one's is there, whatever else has come
//
// A thread for each sender waits for its message, so that a sender that dies, errs or is late is told as every wait of
// the group tells it: next() and wait_for() throw it. Destroyed while messages are expected, it aborts the group: a rank
// that stops listening has left. Thread rule: one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor {

class Arrivals {
 public:
  Arrivals(Group& group, int senders);
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  bool expects(int sender) const { return senders_[static_cast<size_t>(sender)].expected; }
  void expect(int sender,
              Work work);  // until next() or wait_for() has returned it, none other of that sender
  int next();
  void wait_for(int sender);

 private:
  struct Sender {
    Work work;
    bool expected = false;  // of the thread that calls: until it is told
    bool waiting = false;   // of the sender's thread, which has `work` to wait for
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

}  // namespace athanor
