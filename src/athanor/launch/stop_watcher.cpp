#include "athanor/launch/stop_watcher.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/launch/stop_requests.h"

namespace athanor::launch {

StopWatcher::StopWatcher(StopWatcherOptions options) : options_(std::move(options)) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : stop_signals()) sigaddset(&set, number);
  signals_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  end_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  if (signals_.get() < 0 || end_.get() < 0)
    throw IoError(fmt::format("cannot wait for signals: {}", std::strerror(errno)), errno);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  thread_ = std::thread([this] { watch(); });
}

StopWatcher::~StopWatcher() {
  eventfd_write(end_.get(), 1);
  thread_.join();
  // A signal that comes late asks for nothing new, so it must not kill a process that has saved and ends. A launcher
  // signals its ranks one after the other: a rank may have ended with those before it already.
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) continue;
  if (!options_.under_launcher) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopWatcher::watch() {
  options_.on_thread();
  StopRequests requests;
  const auto parent = static_cast<uint32_t>(getppid());
  while (true) {
    pollfd polled[] = {{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
    poll(polled, 2, -1);
    if (polled[1].revents != 0) return;
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      const bool by_launcher = options_.under_launcher && info.ssi_pid == parent;
      const StopMeaning meaning = requests.take(number, options_.clock(), by_launcher);
      if (meaning == StopMeaning::first) {
        requested_ = number;
        options_.on_first(number);
      }
      if (meaning == StopMeaning::again) options_.on_again(number);
    }
  }
}

}  // namespace athanor::launch
