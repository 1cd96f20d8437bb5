// A child process in a process group of its own, with its standard output and errors in a file. What is left of the group
// when it ends is killed. Thread rule: the thread that starts it waits for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace athanor::tests {

struct ProcessEnd {
  int exit_code = 0;         // of one that ended by itself
  int signal = 0;            // that ended it
  bool silent = false;       // killed by the runner
  std::string text() const;  // "exit code 1", "signal 11 (Segmentation fault)", "silence"
};

// `progress` is a number that changes with each sign of life; without one for silence_s seconds the group is killed.
// `variable` ("NAME=value" or empty) is added to the environment.
ProcessEnd run_process(const std::vector<std::string>& command, const std::string& output,
                       const std::string& variable, int silence_s, const std::function<uint64_t()>& progress);

}  // namespace athanor::tests
