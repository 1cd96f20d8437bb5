// The process of one rank, as its supervisor sees it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "athanor/control/descriptor.h"
#include "athanor/launch/process_end.h"

namespace athanor::launch {

struct WorkerCommand {
  std::vector<std::string> arguments;    // the first is the program's path
  std::vector<std::string> environment;  // NAME=value
  std::vector<int> inherited_fds;        // stay open in the worker under their numbers
  bool own_stdin = false;                // true: inherits standard input; false: it is empty
  bool own_stdout = false;               // true: inherits standard output; false: its output is dropped
  bool capture_stderr = true;            // false: inherits standard error
  bool dies_with_parent = true;          // killed when the thread that started it ends, however that ends
  sigset_t signal_mask{};                // what the worker starts with
};

// Kills the process when destroyed.
class Worker {
 public:
  explicit Worker(const WorkerCommand& command);  // IoError if it cannot be started
  // One that a process started which is gone, with what that had of it.
  Worker(pid_t pid, Descriptor process_fd, Descriptor errors)
      : pid_(pid), process_fd_(std::move(process_fd)), stderr_(std::move(errors)) {}
  ~Worker();
  Worker(Worker&&) = default;
  Worker& operator=(Worker&&) = delete;

  pid_t pid() const { return pid_; }
  int process_fd() const { return process_fd_.get(); }  // readable when the process has ended
  int stderr_fd() const { return stderr_.get(); }       // -1 if not captured or closed
  void close_stderr() { stderr_.reset(); }
  void signal(int number) const;
  bool running() const { return process_fd_.get() >= 0; }
  Descriptor let_go() { return std::move(process_fd_); }  // it lives on, and is not looked after any more

  // Records how the process ended; call it after process_fd() became readable.
  void reap();
  bool succeeded() const { return end_.exit_code == 0; }
  int exit_code() const {
    return end_.exit_code;
  }  // -1 if killed by a signal, or if the system does not tell
  int signal_number() const { return end_.signal_number; }
  std::string ending() const;  // "exited with code 1", "was killed by signal 9 (SIGKILL)"

 private:
  pid_t pid_ = -1;
  Descriptor process_fd_, stderr_;
  ProcessEnd end_;
};

}  // namespace athanor::launch
