// Stops the main thread of another process at the entry of one of its next system calls, before the kernel does it.
//
//   CallTrap trap(pid);
//   if (!trap.run_to(/*call=*/12, until_ns)) say(trap.refused());   // "": it made no twelve calls in this time
//   kill(pid, SIGKILL);                                             // the twelfth is not done
//
// ptrace; the other threads of the process run on. The destructor lets the thread go on. Errors: none thrown. Thread rule: one
// thread, which alone may use it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::chaos {

class CallTrap {
 public:
  explicit CallTrap(pid_t process);
  ~CallTrap();
  CallTrap(const CallTrap&) = delete;
  CallTrap& operator=(const CallTrap&) = delete;

  // `call`: 1 is the next one. False: the time is over, the process has ended, or it may not be traced.
  bool run_to(int64_t call, int64_t until_ns);
  const std::string& refused() const { return refused_; }

 private:
  bool wait_for_stop(int64_t until_ns);  // and what it was: status_

  pid_t process_;
  bool is_seized_ = false, is_stopped_ = false;
  int status_ = 0;
  std::string refused_;
};

}  // namespace athanor::chaos
