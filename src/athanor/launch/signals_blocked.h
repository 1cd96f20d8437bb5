// Signals that ask a job to end or to stop, blocked in the calling thread and read from a descriptor instead.
#pragma once

#include <fmt/core.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "athanor/base/error.h"
#include "athanor/control/descriptor.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::launch {

// stop_signals() and SIGTSTP, for as long as the object lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : stop_signals()) sigaddset(&set, number);
    sigaddset(&set, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    fd_ = control::Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (fd_.get() < 0) throw IoError(fmt::format("signalfd: {}", std::strerror(errno)), errno);
  }
  ~SignalsBlocked() {
    // A repetition that comes late must not kill a process whose ranks have saved.
    while (take() != 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  int take() const {  // 0: none has come
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  control::Descriptor fd_;
};

}  // namespace athanor::launch
