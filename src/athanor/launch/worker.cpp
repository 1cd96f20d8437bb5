#include "athanor/launch/worker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

#include "athanor/base/error.h"
#include "athanor/launch/diagnosis/end_in_words.h"

namespace athanor::launch {

namespace {

[[noreturn]] void fail_io(const std::string& what, int code) {
  throw IoError(fmt::format("{}: {}", what, std::strerror(code)), code);
}

constexpr int kOutputPipeBytes = 1 << 20;

struct Pipe {
  Descriptor out, in;  // what is written to `in` is read from `out`
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_io("cannot start a worker: pipe", errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

Worker::Worker(const WorkerCommand& command) {
  // All memory is made ready here: between fork and exec only plain system calls are allowed.
  const auto arguments = pointers(command.arguments), environment = pointers(command.environment);
  Pipe errors = make_pipe(), output = make_pipe();
  // A rank that writes much waits less often for its reader. The system may refuse: then it has the usual 64 KiB.
  fcntl(output.out.get(), F_SETPIPE_SZ, kOutputPipeBytes);
  const Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) fail_io("cannot start a worker: fork", errno);
  if (pid == 0) {
    // A terminal's Ctrl-C goes to the foreground group: the supervisor alone, which passes it on once.
    setpgid(0, 0);
    if (command.dies_with_parent) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (command.dies_with_parent && getppid() != parent)
      _exit(127);  // check_library: a child of fork, whose launcher died before the line above
    if (!command.own_stdin) dup2(null.get(), STDIN_FILENO);
    if (!command.own_stdout) dup2(null.get(), STDOUT_FILENO);
    if (command.capture_stderr) dup2(output.in.get(), STDERR_FILENO);
    for (const int fd : command.inherited_fds) fcntl(fd, F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &command.signal_mask, nullptr);
    execve(arguments[0], arguments.data(), environment.data());
    const int code = errno;
    const bool told = write(errors.in.get(), &code, sizeof(code)) == sizeof(code);
    _exit(told ? 127 : 126);  // check_library: a child of fork that could not exec
  }
  errors.in.reset();
  int code = 0;
  if (read(errors.out.get(), &code, sizeof(code)) == sizeof(code)) {
    waitpid(pid, nullptr, 0);
    fail_io(fmt::format("cannot run {}", command.arguments[0]), code);
  }
  pid_ = pid;
  process_fd_ = Descriptor(pidfd_open(pid, 0));
  if (!running()) {
    const int failure = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    fail_io("cannot watch a worker: pidfd_open", failure);
  }
  if (command.capture_stderr) stderr_ = std::move(output.out);
}

Worker::~Worker() {
  if (!running()) return;
  signal(SIGKILL);
  signal(SIGCONT);
  reap();
}

void Worker::signal(int number) const {
  if (running()) pidfd_send_signal(process_fd_.get(), number, nullptr, 0);
}

void Worker::reap() {
  end_ = wait_for_end(process_fd_.get(), pid_);
  process_fd_.reset();
}

std::string Worker::ending() const {
  if (end_.signal_number == 0 && end_.exit_code < 0) return "has ended: nobody knows how";
  return end_in_words(end_);
}

}  // namespace athanor::launch
