#include "athanor/launch/stop_requests.h"

#include <fmt/core.h>

#include <csignal>
#include <cstring>

namespace athanor::launch {

std::vector<int> stop_signals() {
  std::vector<int> numbers;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) numbers.push_back(number);
  }
  return numbers;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

StopMeaning StopRequests::take(int number, int64_t now_ns, bool by_launcher) {
  if (first_ == 0) {
    first_ = number;
    first_ns_ = now_ns;
    return StopMeaning::first;
  }
  const bool same = number == SIGXCPU || by_launcher || now_ns - first_ns_ <= kSameRequestNs;
  return same ? StopMeaning::same : StopMeaning::again;
}

}  // namespace athanor::launch
