#include "athanor/chaos/call_trap.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "athanor/base/clock.h"

namespace athanor::chaos {
namespace {

constexpr int kCallStop = SIGTRAP | 0x80;  // by PTRACE_O_TRACESYSGOOD
constexpr int64_t kMostToStopNs = 1'000'000'000;

}  // namespace

CallTrap::CallTrap(pid_t process) : process_(process) {
  is_seized_ = ptrace(PTRACE_SEIZE, process, nullptr, PTRACE_O_TRACESYSGOOD) == 0;
  if (!is_seized_) refused_ = std::string("ptrace: ") + std::strerror(errno);
}

CallTrap::~CallTrap() {
  if (!is_seized_) return;
  if (!is_stopped_ && ptrace(PTRACE_INTERRUPT, process_, nullptr, nullptr) == 0)
    wait_for_stop(now_ns() + kMostToStopNs);
  if (!is_stopped_ || ptrace(PTRACE_DETACH, process_, nullptr, nullptr) == 0) return;
  wait_for_stop(now_ns() + kMostToStopNs);  // it was killed: its parent hears of its end after who traces it
}

bool CallTrap::wait_for_stop(int64_t until_ns) {
  for (;;) {
    const pid_t waited = waitpid(process_, &status_, __WALL | WNOHANG);
    if (waited == process_) {
      is_stopped_ = WIFSTOPPED(status_);
      is_seized_ = is_stopped_;  // else it has ended
      return is_stopped_;
    }
    if ((waited < 0 && errno != EINTR) || now_ns() >= until_ns) return false;
    constexpr timespec kPause{0, 20'000};
    nanosleep(&kPause, nullptr);
  }
}

bool CallTrap::run_to(int64_t call, int64_t until_ns) {
  if (!is_seized_ || ptrace(PTRACE_INTERRUPT, process_, nullptr, nullptr) != 0) return false;
  bool is_entry =
      true;  // of the next stop at a call: in one that it is interrupted in, there is no stop at the end
  for (int64_t entries = 0; wait_for_stop(until_ns);) {
    const int signal = WSTOPSIG(status_);
    if (signal == kCallStop) {
      if (is_entry && ++entries == call) return true;
      is_entry = !is_entry;
    }
    const bool is_signal = signal != kCallStop && status_ >> 16 == 0;
    is_stopped_ = false;
    if (ptrace(PTRACE_SYSCALL, process_, nullptr, is_signal ? signal : 0) != 0) return false;
  }
  return false;
}

}  // namespace athanor::chaos
