// Decides what a signal means: save and end, or (a second request) end now.
//
//   StopRequests requests;
//   switch (requests.take(number, now_ns())) {
//     case StopMeaning::first: ...   // save and end
//     case StopMeaning::same: ...    // nothing new
//     case StopMeaning::again: ...   // end now
//   }
//
// One request may arrive as several signals: a terminal, `timeout` or a scheduler signals the process and then its
// process group. So signals within kSameRequestNs of the first are the same request. Two kinds of signals never mean
// "end now": SIGXCPU, which the kernel repeats every second of processor time, and signals from the rank's own
// launcher, which sends SIGKILL when it means that. A signal that was ignored when the process started (nohup) stays
// ignored and is not in stop_signals(). Time is passed in. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch {

// Interrupted after saving (EX_TEMPFAIL of sysexits.h): start it again.
constexpr int kInterruptedExitCode = 75;
constexpr int64_t kSameRequestNs = 200'000'000;

// SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU without those that this process ignores.
std::vector<int> stop_signals();
std::string signal_name(int number);  // "SIGTERM"

enum class StopMeaning { first, same, again };

class StopRequests {
 public:
  StopMeaning take(int number, int64_t now_ns, bool by_launcher = false);
  int first() const { return first_; }  // the signal that asked first; 0: none

 private:
  int first_ = 0;
  int64_t first_ns_ = 0;
};

}  // namespace athanor::launch
