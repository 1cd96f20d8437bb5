// Which signals ask a run to save and end, and when a further one means: at once.
//
//   StopRequests requests;
//   switch (requests.take(number, now_ns())) {
//     case StopMeaning::first: ...   // save and end
//     case StopMeaning::same: ...    // nothing new
//     case StopMeaning::again: ...   // end now
//   }
//
// One action may arrive several times: a terminal, `timeout`, a scheduler signal the process and then its group. So what
// comes within kSameRequestNs of the first is the same request. Two kinds never mean "at once": SIGXCPU, which the kernel
// repeats every second of processor time, and what a rank's own launcher sends, which knows to kill. A signal that a
// process was started with as ignored (nohup) stays ignored: it is none of stop_signals(). Time is passed in.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace athanor {

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

}  // namespace athanor
