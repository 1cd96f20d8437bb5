// How a process ended, in words: what it was, what that usually means, and whether the kernel killed it for want of memory.
//
//   const ProcessEnd end{.signal_number = SIGBUS};
//   end_in_words(end);           // "was killed by signal 7 (SIGBUS)"
//   meaning_of(end);             // "a file or shared memory that it had mapped was cut short, or ... is full"
//
//   MemoryKills kills;           // before
//   ... a process is killed by SIGKILL ...
//   meaning_of(kills.ask());     // "the kernel killed it for want of memory: ..."
//
// The kernel counts such kills: for the control group of the process (memory.events, memory.oom_control in version 1) and for the
// machine (/proc/vmstat), each before it sends the signal. Thread rule: pure functions; MemoryKills one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::launch::diagnosis {

struct ProcessEnd {
  int exit_code = -1;     // -1: killed by a signal
  int signal_number = 0;  // 0: none
};

std::string end_in_words(const ProcessEnd& end);
// Of a signal, of a shell's exit code (126, 127, 128 + a signal); "": no more than the number says. SIGKILL alone says nothing.
std::string meaning_of(const ProcessEnd& end);

enum class KilledBy {
  unknown,         // this machine does not tell
  somebody,        // the kernel has killed nobody for want of memory
  perhaps_kernel,  // it has killed a process of the machine, and does not say of which group
  kernel,          // it has killed a process of this one's control group, the memory of which is used up
};
std::string meaning_of(KilledBy by);

class MemoryKills {
 public:
  // `root`: the folder under which /proc and /sys lie (base/cgroup.h). What was killed before counts for nothing.
  explicit MemoryKills(std::string root = "");

  // A process of this control group has just been found killed by SIGKILL. Each kill that was counted explains one.
  KilledBy ask();

 private:
  struct Counters {
    std::optional<uint64_t> of_group{}, of_machine{};
  };
  Counters read() const;
  std::string root_;
  Counters explained_;
};

}  // namespace athanor::launch::diagnosis
