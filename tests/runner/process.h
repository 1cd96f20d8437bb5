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

struct ProcessOptions {
  std::string output;                         // the file for what it says
  std::string folder = {};                    // it works and has its TMPDIR there; "": where this process has
  std::vector<std::string> environment = {};  // "NAME=value", beside that of this process
  int silence_s = 1200;                       // without a sign of life, after which the group is killed
};

// `progress` is a number that changes with each sign of life.
ProcessEnd run_process(const std::vector<std::string>& command, const ProcessOptions& options,
                       const std::function<uint64_t()>& progress);

}  // namespace athanor::tests
