// Ranks as forked copies of this process, to test what happens when ranks fail (thread.h has ranks as threads).
//
//   ShmSegment segment(3);
//   ForkedRanks ranks(3, [&](int rank) { open_shm_group(segment.fd(), rank, 3)->barrier("x"); });
//   kill(ranks.pid(1), SIGKILL);
//   ranks.outcomes();          // {"PeerLost 1: rank 1 was lost: ...", "signal 9", "PeerLost 1: ..."}
//
// A child runs its body and exits. It has the process's open files but none of its threads. Errors: Recoverable if the
// system gives no process or pipe. Thread rule: one thread; no other thread runs during the fork.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::comm::shm {

// Runs body; returns "" for a normal end, else "Error: ...", "PeerLost 1: ...", "Timeout: ...", "Recoverable: ...".
std::string outcome_of(const std::function<void()>& body);

class ForkedRanks {
 public:
  ForkedRanks(int size, const std::function<void(int rank)>& body);
  ~ForkedRanks();  // kills ranks that still run
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  pid_t pid(int rank) const { return children_[static_cast<size_t>(rank)].pid; }
  std::string outcome(int rank);  // waits for the rank's end: as outcome_of(), or "signal 9", "exit code 3"
  std::vector<std::string> outcomes();

 private:
  struct Child {
    pid_t pid;
    int report;  // read end of its pipe
  };
  void end_all();
  std::vector<Child> children_;
};

}  // namespace athanor::comm::shm
