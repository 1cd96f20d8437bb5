#include "apps/program.h"
#include "support/places.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

namespace athanor::tests {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

int input_file(const std::string& bytes) {
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      lseek(fd, 0, SEEK_SET) != 0)
    give_up("input");
  return fd;
}

// True while there is more to come.
bool take(int fd, std::string& text) {
  char buffer[1 << 16];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n > 0) text.append(buffer, static_cast<size_t>(n));
  return n > 0;  // a terminal whose other side has gone says EIO
}

// In memory where there is room: a run syncs dozens of files, which takes a disk longer than all its
// computing.
fs::path temporary_root() {
  const fs::path memory = "/dev/shm";
  std::error_code error;
  const auto space = fs::space(memory, error);
  const bool fits = !error && space.available > (uint64_t{512} << 20) && access(memory.c_str(), W_OK) == 0;
  return fits ? memory : fs::temp_directory_path();
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

std::string Outcome::all() const {
  return "exit code " + std::to_string(exit_code) + ", signal " + std::to_string(signal) +
         "\n--- standard output\n" + out + "\n--- standard error\n" + err;
}

Program::Program(const std::vector<std::string>& arguments, const ProgramOptions& options)
    : deadline_(Clock::now() + kPatience) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const bool measures = !arguments.empty() && arguments.front() == kBench;
  std::vector<std::string> words = {built(measures ? kBench : "athanor")};
  words.insert(words.end(), arguments.begin() + (measures ? 1 : 0), arguments.end());
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C.UTF-8",
                                          "TERM=xterm"};
  environment.insert(environment.end(), options.environment.begin(), options.environment.end());
  const auto argv = pointers(words), envp = pointers(environment);
  const int input = input_file(options.input);
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  if (options.terminal) {
    const winsize size{.ws_row = 40, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    if (openpty(&out[0], &out[1], nullptr, nullptr, &size) != 0) give_up("openpty");
    err[1] = dup(out[1]);
  } else if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    give_up("pipe");
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) give_up("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    if (getppid() != parent || (!options.folder.empty() && chdir(options.folder.c_str()) != 0)) _exit(126);
    for (int number = 1; number < SIGRTMIN; ++number) std::signal(number, SIG_DFL);
    for (const int number : options.ignored_signals) std::signal(number, SIG_IGN);
    const rlimit limit{options.max_file_bytes, options.max_file_bytes};
    if (options.max_file_bytes > 0 && setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(125);
    dup2(options.input_fd >= 0 ? options.input_fd : input, STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    if (!options.output_file.empty()) dup2(open(options.output_file.c_str(), O_WRONLY), STDOUT_FILENO);
    close_range(options.closed_streams ? 0 : 3, ~0U, 0);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(input);
  close(out[1]);
  close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
  process_fd_ = pidfd_open(pid_, 0);
  if (process_fd_ < 0) give_up("pidfd_open");
}

Program::~Program() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (int* fd : {&out_fd_, &err_fd_, &process_fd_}) close_fd(*fd);
}

void Program::signal(int number) const {
  if (!ended_ && kill(pid_, number) != 0) give_up("kill");
}

void Program::pump(int timeout_ms) {
  pollfd fds[] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}, {process_fd_, POLLIN, 0}};
  if (poll(fds, 3, timeout_ms) < 0) give_up("poll");
  if (fds[0].revents != 0 && !take(out_fd_, outcome_.out)) close_fd(out_fd_);
  if (fds[1].revents != 0 && !take(err_fd_, outcome_.err)) close_fd(err_fd_);
  if (fds[2].revents != 0) {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) give_up("waitpid");
    close_fd(process_fd_);
    ended_ = true;
    if (WIFEXITED(status)) outcome_.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
  }
  if (Clock::now() < deadline_) return;
  const bool held = ended_;
  if (!ended_) kill(pid_, SIGKILL);
  throw std::runtime_error((held ? "the program ended, but something it left behind holds its output\n"
                                 : "the program has not ended in time\n") +
                           outcome_.all());
}

bool Program::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (ended_) return condition();
    pump(/*timeout_ms=*/1);
  }
  return true;
}

void Program::close_output() {
  close_fd(out_fd_);
  close_fd(err_fd_);
}

Outcome Program::finish() {
  while (!ended_ || out_fd_ >= 0 || err_fd_ >= 0) pump(/*timeout_ms=*/1000);
  return outcome_;
}

bool nothing_left_running(bool patient) {
  const auto deadline = Clock::now() + kPatience;
  while (true) {
    const pid_t found = waitpid(-1, nullptr, WNOHANG);
    if (found < 0) return errno == ECHILD;
    if (!patient || Clock::now() > deadline) return false;
    if (found == 0) poll(nullptr, 0, 1);
  }
}

bool is_pending(pid_t process, int number) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;)
    if (word == "ShdPnd:" && status >> word) return (std::stoull(word, nullptr, 16) >> (number - 1) & 1) != 0;
  return false;
}

namespace {

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(parent) + "/task")) {
    std::ifstream children(thread.path() / "children");
    for (pid_t pid; children >> pid;) found.push_back(pid);
  }
  return found;
}

}  // namespace

std::map<int, pid_t> ranks_of(pid_t launcher) {
  std::map<int, pid_t> ranks;
  for (const pid_t pid : children_of(launcher)) {
    std::ifstream environment("/proc/" + std::to_string(pid) + "/environ");
    for (std::string entry; std::getline(environment, entry, '\0');)
      if (entry.rfind("RANK=", 0) == 0) ranks[std::stoi(entry.substr(5))] = pid;
  }
  return ranks;
}

static pid_t child_of(pid_t parent, const std::string& command) {
  for (const pid_t pid : parent > 0 ? children_of(parent) : std::vector<pid_t>()) {
    std::ifstream words("/proc/" + std::to_string(pid) + "/cmdline");
    for (std::string word; std::getline(words, word, '\0');)
      if (word == command) return pid;
  }
  return -1;
}

pid_t agent_of(pid_t launcher) {
  return child_of(launcher, "launch-agent");
}

pid_t master_of(pid_t launcher) {
  return child_of(agent_of(launcher), "launch-master");
}

Workplace::Workplace() : path_((temporary_root() / "athanor_apps_XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) give_up("mkdtemp");
}
Workplace::~Workplace() {
  std::error_code error;  // what cannot be removed must not hide why a test failed
  fs::remove_all(path_, error);
}

void Workplace::write(const std::string& name, const std::string& bytes) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream file(path(name), std::ios::binary);
  file << bytes;
  if (!file.flush()) give_up("write " + name);
}

std::string Workplace::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  if (!file) give_up("read " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Workplace::exists(const std::string& name) const {
  return fs::exists(path(name));
}

std::vector<std::string> Workplace::list(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path(name))) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, std::string> Workplace::files(const std::string& name) const {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(path(name)))
    if (entry.is_regular_file()) {
      const std::string file = fs::relative(entry.path(), path_);
      all[file] = read(file);
    }
  return all;
}

void Workplace::flip(const std::string& name, size_t byte, int bit) const {
  std::string bytes = read(name);
  bytes.at(byte) = static_cast<char>(bytes[byte] ^ (1 << bit));
  write(name, bytes);
}

void Workplace::copy(const std::string& from, const std::string& to) const {
  fs::create_directories(fs::path(path(to)).parent_path());
  fs::copy(path(from), path(to), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

void Workplace::remove(const std::string& name) const {
  fs::remove_all(path(name));
}

Outcome Workplace::run(const std::vector<std::string>& arguments, ProgramOptions options) const {
  if (options.folder.empty()) options.folder = path_;
  return Program(arguments, options).finish();
}

std::string Workplace::output_of(const std::vector<std::string>& arguments, ProgramOptions options) const {
  const Outcome outcome = run(arguments, std::move(options));
  if (outcome.exit_code != 0) {
    std::string words;
    for (const std::string& argument : arguments) words += " " + argument;
    throw std::runtime_error("athanor" + words + ": " + outcome.all());
  }
  return outcome.out;
}

Program Workplace::start(const std::vector<std::string>& arguments, ProgramOptions options) const {
  if (options.folder.empty()) options.folder = path_;
  return Program(arguments, options);
}

}  // namespace athanor::tests
