// The process of one rank, as its supervisor sees it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "athanor/control/descriptor.h"

namespace athanor::launch {

struct WorkerCommand {
  std::vector<std::string> arguments;    // the first is the program's path
  std::vector<std::string> environment;  // NAME=value
  std::vector<int> inherited_fds;        // stay open in the worker under their numbers
  bool own_stdout = false;               // true: inherits standard output; false: its output is dropped
  bool capture_stderr = true;            // false: inherits standard error
  sigset_t signal_mask{};                // what the worker starts with
};

// Kills the process when destroyed, and when the thread that started it ends.
class Worker {
 public:
  explicit Worker(const WorkerCommand& command);  // IoError if it cannot be started
  ~Worker();
  Worker(Worker&&) = default;
  Worker& operator=(Worker&&) = delete;

  int process_fd() const { return process_fd_.get(); }  // readable when the process has ended
  int stderr_fd() const { return stderr_.get(); }       // -1 if not captured or closed
  void close_stderr() { stderr_.reset(); }
  void signal(int number) const;
  bool running() const { return process_fd_.get() >= 0; }

  // Records how the process ended; call it after process_fd() became readable.
  void reap();
  bool succeeded() const { return exit_code_ == 0; }
  int exit_code() const { return exit_code_; }  // -1 if killed by a signal
  int signal_number() const { return signal_number_; }
  std::string ending() const;  // "exited with code 1", "was killed by signal 9 (SIGKILL)"

 private:
  Descriptor process_fd_, stderr_;
  int exit_code_ = -1, signal_number_ = 0;
};

}  // namespace athanor::launch
