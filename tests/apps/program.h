// Runs the real program as a user does: a process of its own in a folder of its own, told apart by its output
// and its exit code.
//
//   Workplace place;
//   place.write("a.txt", "some text");
//   const Outcome outcome = place.run({"tokenizer", "inspect", "tokenizer.json"});
//   Program run = place.start({"train", "run.toml"});
//   run.wait_until([&] { return place.exists("runs/t/metrics.jsonl"); });
//   run.signal(SIGKILL);
//
// Nothing waits blindly: a program is waited for by events, and one that has not ended after kPatience is
// killed and fails the test (std::runtime_error). Programs get a plain environment, so that no NO_COLOR or
// RANK of the machine leaks in. Whatever a program leaves running becomes a child of the test and is found by
// nothing_left_running(). Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/kill.h"

namespace athanor::tests {

constexpr std::chrono::seconds kPatience{600};
// Arguments that begin with it are those of athanor-bench, others of athanor.
constexpr const char* kBench = "athanor-bench";

struct Outcome {
  int exit_code = -1;  // -1: killed by a signal
  int signal = 0;
  std::string out, err;
  std::string all() const;  // for the messages of failing tests
};

struct ProgramOptions {
  std::string folder = {};                    // working folder
  std::string input = {};                     // standard input
  int input_fd = -1;                          // the same, in place of `input`
  std::vector<std::string> environment = {};  // NAME=value, beside the plain one
  bool terminal = false;                      // standard output and error are a terminal
  std::string output_file = {};               // standard output goes there
  bool closed_streams = false;                // starts without standard input, output and error
  uint64_t max_file_bytes = 0;                // 0: no limit
  std::vector<int> ignored_signals = {};      // as nohup ignores SIGHUP; all others have their default
};

class Program {
 public:
  Program(const std::vector<std::string>& arguments, const ProgramOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Looks again and again, reading the program's output meanwhile; false if the program ended first.
  bool wait_until(const std::function<bool()>& condition);
  // Nobody reads its output and errors any more: a pipe that is broken, a terminal that has hung up.
  void close_output();
  Outcome finish();
  const std::string& output_so_far() const { return outcome_.out; }
  const std::string& errors_so_far() const { return outcome_.err; }

 private:
  void pump(int timeout_ms);  // takes what has been written, notices the end

  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1, process_fd_ = -1;
  bool ended_ = false;
  Outcome outcome_;
  std::chrono::steady_clock::time_point deadline_;
};

// True when no process is left that a program of this test started, now or (patient) after the signals under
// way have done their work.
bool nothing_left_running(bool patient = false);
// Whether a signal that was sent to a process waits to be taken.
bool is_pending(pid_t process, int number);
// The ranks of a launcher by their number, as their environment says.
std::map<int, pid_t> ranks_of(pid_t launcher);
// Its other processes, which act and decide; -1: it is just being started, and kill() would take that for all processes.
pid_t agent_of(pid_t launcher);
pid_t master_of(pid_t launcher);

class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const;  // and the folders above it
  std::string read(const std::string& name) const;
  bool exists(const std::string& name) const;
  std::vector<std::string> list(const std::string& name) const;  // names, sorted
  // Every file below a folder: its name there and its bytes.
  std::map<std::string, std::string> files(const std::string& name) const;
  // Changes one bit.
  void flip(const std::string& name, size_t byte, int bit = 0) const;
  void copy(const std::string& from, const std::string& to) const;  // a file or a folder
  void remove(const std::string& name) const;

  Outcome run(const std::vector<std::string>& arguments, ProgramOptions options = {}) const;
  // The same, for a command that must succeed: its standard output.
  std::string output_of(const std::vector<std::string>& arguments, ProgramOptions options = {}) const;
  Program start(const std::vector<std::string>& arguments, ProgramOptions options = {}) const;

 private:
  std::string path_;
};

}  // namespace athanor::tests
