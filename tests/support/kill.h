// kill() for tests: what a search that found nothing gives is refused, since -1 means every process of the user, and 0 all of
// this group. Whoever includes this has it in place of the system's.
#pragma once

#include <csignal>
#include <stdexcept>

namespace athanor::tests {

inline int kill(pid_t process, int signal) {
  if (process >= -1 && process <= 1) throw std::invalid_argument("kill: no process was found");
  return ::kill(process, signal);
}

}  // namespace athanor::tests
