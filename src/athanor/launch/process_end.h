// How a process ended that another one has started, by a descriptor of it (pidfd).
//
//   const ProcessEnd end = wait_for_end(process_fd, pid);
//   if (end.exit_code < 0 && end.signal_number == 0) say("nobody knows how");
//
// A child tells its parent. Of any other process the kernel tells those who had a descriptor of it before (Linux 6.15), and
// /proc tells until its parent has asked. Errors: none. Thread rule: any thread.
#pragma once

#include <sys/types.h>

#include "athanor/launch/diagnosis/end_in_words.h"

namespace athanor::launch {

// Waits until it has ended. -1 and 0: nobody knows how.
ProcessEnd wait_for_end(int process_fd, pid_t pid);
void kill_and_wait(int process_fd, pid_t pid);  // stopped or not

}  // namespace athanor::launch
