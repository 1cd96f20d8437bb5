// What the kernel counts of a process that is watched from outside.
//
//   watch.delayed(rank, processor_delay_ns(process));       // slow_watch.h
//   const int64_t bytes = own_memory_bytes(process);        // memory_watch.h
//
// 0 where the process is gone, or the kernel does not count. `root`: the folder under which /proc lies, for tests. Thread rule:
// pure functions of files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::launch::diagnosis {

// How long its threads were ready to run and had no processor, since each began (/proc/PID/task/*/schedstat).
int64_t processor_delay_ns(pid_t process, const std::string& root = "");

// Memory that nobody shares and no file backs, also if it is swapped out: not the slots of snapshots, nor the pages of token
// files.
int64_t own_memory_bytes(pid_t process, const std::string& root = "");

}  // namespace athanor::launch::diagnosis
