#include "athanor/comm/own_thread.h"

#include <pthread.h>

#include <csignal>

namespace athanor::comm {

std::thread make_own_thread(const GroupOptions& options, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([on_thread = options.on_thread, body = std::move(body)] {
    if (on_thread) on_thread();
    body();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace athanor::comm
