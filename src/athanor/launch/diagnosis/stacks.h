// What the threads of another process are doing at this moment: state, wait channel and stack of each. A rank that makes no
// progress is asked this way where it stands.
//
//   const ProcessStacks stacks = take_stacks(pid, /*limit_ms=*/500);
//   for (const ThreadStack& thread : stacks.threads) print(thread.name, thread.state, thread.frames);
//   if (!stacks.refused.empty()) say("stacks: " + stacks.refused);       // what /proc has is there all the same
//
// Each thread is stopped by ptrace for as long as its stack is read, and goes on as before, also where the process had been
// stopped. The files of the program and its libraries are opened before that. Frames are functions of symbol tables; one without
// a name is "?" with its file. Threads that do not stop in the time (in uninterruptible sleep) have no frames.
//
// Errors: none; a process that is gone has no threads. Thread rule: any thread, one call at a time for a process. A call starts
// a thread and waits for it, because only its end lets go of a thread that did not stop in time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::diagnosis {

struct ThreadStack {
  pid_t thread = 0;
  std::string name;  // "athanor", "loader"
  char state = '?';  // of /proc: R runs, S sleeps, D sleeps uninterruptibly, T is stopped, Z is a zombie
  std::string wait_channel;              // "futex_wait_queue"; "": none, or it may not be read
  std::vector<std::string> frames = {};  // the innermost first: "athanor::comm::shm::Segment::wait"
};

struct ProcessStacks {
  pid_t process = 0;
  std::vector<ThreadStack> threads = {};  // the main thread first
  std::string refused = {};               // why there are no stacks; "": there are
};

char process_state(pid_t process);  // of its main thread; '?': it is gone
// What /proc says alone.
ProcessStacks thread_states(pid_t process);
ProcessStacks take_stacks(pid_t process, int64_t limit_ms);

// "athanor::run::Segment::train" of a mangled symbol: without parameters, template arguments and unnamed namespaces.
std::string short_function_name(const char* symbol);

}  // namespace athanor::launch::diagnosis
