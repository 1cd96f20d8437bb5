// How much memory a process of this machine can still get: free and reclaimable memory, swap included, limited by the
// control groups of the process (containers, batch systems; versions 1 and 2).
//
//   const uint64_t bytes = available_memory_bytes();
//
// `root` is the folder under which /proc and /sys lie; tests pass their own. Thread rule: pure functions of files.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::base {

struct AvailableMemory {
  uint64_t bytes = 0;  // 0 if the machine does not say
  std::string group;   // the control group that leaves less than the machine has; "": none
};
AvailableMemory available_memory(const std::string& root = "");
uint64_t available_memory_bytes(const std::string& root = "");  // 0 if the machine does not say

}  // namespace athanor::base
