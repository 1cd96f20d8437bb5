#include "athanor/launch/supervisor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/launch/rank_output.h"
#include "athanor/launch/stop_requests.h"
#include "athanor/launch/worker.h"

namespace athanor::launch {

namespace {

constexpr int64_t kTickNs = 100'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : stop_signals()) sigaddset(&set, number);
    sigaddset(&set, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    fd_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (fd_.get() < 0) throw IoError(fmt::format("signalfd: {}", std::strerror(errno)), errno);
  }
  ~SignalsBlocked() {
    // A repetition that comes late must not kill a process whose ranks have saved.
    signalfd_siginfo info;
    while (read(fd_.get(), &info, sizeof(info)) == sizeof(info)) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
  Descriptor fd_;
};

class Supervisor {
 public:
  explicit Supervisor(const LaunchOptions& options)
      : options_(options), output_(options.num_ranks, options.write) {}

  LaunchResult run() {
    workers_.reserve(static_cast<size_t>(options_.num_ranks));
    for (int rank = 0; rank < options_.num_ranks; ++rank) workers_.emplace_back(command_of(rank));
    while (any_running()) {
      wait_for_something();
      const int64_t now = now_ns();
      output_.flush(now);
      if (now >= next_escalation_ns_) escalate(now);
    }
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      read_output(rank);
      output_.end_of(static_cast<int>(rank), now_ns());
    }
    return conclude();
  }

 private:
  WorkerCommand command_of(int rank) const {
    WorkerCommand command;
    command.arguments = options_.command;
    const int world_size = options_.world_size > 0 ? options_.world_size : options_.num_ranks;
    std::vector<std::pair<std::string, int>> own = {{"RANK", options_.first_rank + rank},
                                                    {"LOCAL_RANK", rank},
                                                    {"WORLD_SIZE", world_size},
                                                    {"LOCAL_WORLD_SIZE", options_.num_ranks}};
    const auto pass = [&](const char* name, int fd) {
      own.emplace_back(name, fd);
      command.inherited_fds.push_back(fd);
    };
    if (options_.segment_fd >= 0) pass("ATHANOR_SHM_FD", options_.segment_fd);
    if (!options_.snapshot_fds.empty())
      pass("ATHANOR_SNAPSHOT_FD", options_.snapshot_fds.at(static_cast<size_t>(rank)));
    for (const auto& entry : options_.environment)
      if (std::none_of(own.begin(), own.end(),
                       [&](const auto& variable) { return entry.starts_with(variable.first + "="); }))
        command.environment.push_back(entry);
    for (const auto& [name, value] : own) command.environment.push_back(fmt::format("{}={}", name, value));
    command.own_stdout = rank == 0;
    command.capture_stderr = rank != 0 || !options_.terminal;
    command.signal_mask = signals_.before();
    return command;
  }

  bool any_running() const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker.running(); });
  }

  void wait_for_something() {
    std::vector<pollfd> polled = {{signals_.fd(), POLLIN, 0}};
    for (const auto& worker : workers_) {  // negative descriptors are skipped by poll
      polled.push_back({worker.process_fd(), POLLIN, 0});
      polled.push_back({worker.stderr_fd(), POLLIN, 0});
    }
    int64_t timeout_ns =
        next_escalation_ns_ == kNever ? kNever : std::max<int64_t>(next_escalation_ns_ - now_ns(), 0);
    if (output_.holds()) timeout_ns = std::min(timeout_ns, kTickNs);
    poll(polled.data(), polled.size(),
         timeout_ns == kNever ? -1 : static_cast<int>(timeout_ns / 1'000'000 + 1));
    if (polled[0].revents != 0) take_signals();
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      if (polled[2 * rank + 2].revents != 0) read_output(rank);
      if (polled[2 * rank + 1].revents != 0) take_ending(rank);
    }
  }

  // Everything that is there now; a worker's children may hold the pipe open after its end.
  void read_output(size_t rank) {
    Worker& worker = workers_[rank];
    char bytes[65536];
    while (worker.stderr_fd() >= 0) {
      pollfd polled{worker.stderr_fd(), POLLIN, 0};
      if (poll(&polled, 1, 0) <= 0) return;
      const ssize_t length = read(worker.stderr_fd(), bytes, sizeof(bytes));
      if (length > 0) {
        output_.add(static_cast<int>(rank), {bytes, static_cast<size_t>(length)}, now_ns());
      } else if (length == 0 || errno != EINTR) {
        worker.close_stderr();
        output_.end_of(static_cast<int>(rank), now_ns());
      }
    }
  }

  static bool has_ended_well(const Worker& worker) {
    return worker.succeeded() || worker.exit_code() == kInterruptedExitCode;
  }

  void take_ending(size_t rank) {
    Worker& worker = workers_[rank];
    worker.reap();
    if (has_ended_well(worker)) {
      options_.on_finished(static_cast<int>(rank));
      return;
    }
    options_.on_failed(static_cast<int>(rank), worker.ending());
    if (ended_by_us_) return;
    failed_.push_back(rank);
    if (next_escalation_ns_ == kNever) next_escalation_ns_ = now_ns() + options_.grace_ms * 1'000'000;
  }

  void signal_all(int number) {
    for (const auto& worker : workers_) worker.signal(number);
  }

  void escalate(int64_t now) {
    signal_all(ended_by_us_ ? SIGKILL : SIGTERM);
    signal_all(SIGCONT);  // a stopped rank takes no SIGTERM
    next_escalation_ns_ = ended_by_us_ ? kNever : now + options_.grace_ms * 1'000'000;
    ended_by_us_ = true;
  }

  void take_signals() {
    signalfd_siginfo info;
    while (read(signals_.fd(), &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGTSTP) {
        signal_all(SIGSTOP);
        raise(SIGSTOP);
        signal_all(SIGCONT);
        continue;
      }
      switch (requests_.take(number, options_.clock())) {
        case StopMeaning::first:
          signal_all(number);
          break;
        case StopMeaning::same:
          break;
        case StopMeaning::again:
          ended_by_us_ = true;
          signal_all(SIGKILL);
      }
    }
  }

  // The rank that the other ranks blame; otherwise the first rank that a signal ended; otherwise the first that failed.
  size_t culprit() const {
    const auto failed = [&](int rank) {
      return std::find(failed_.begin(), failed_.end(), static_cast<size_t>(rank)) != failed_.end();
    };
    if (const auto rank = options_.blamed(); rank && *rank >= 0 && failed(*rank))
      return static_cast<size_t>(*rank);
    const auto killed = std::find_if(failed_.begin(), failed_.end(),
                                     [&](size_t rank) { return workers_[rank].signal_number() != 0; });
    return killed != failed_.end() ? *killed : failed_.front();
  }

  LaunchResult conclude() {
    LaunchResult result;
    const bool all_ended_well = std::all_of(workers_.begin(), workers_.end(), has_ended_well);
    // With a wrong config all ranks print the same message, and rank 0 has printed it already.
    if (workers_[0].exit_code() == 2) output_.drop_held();
    output_.flush(now_ns(), true);
    if (all_ended_well) {
      for (const Worker& worker : workers_)
        if (!worker.succeeded()) result.exit_code = kInterruptedExitCode;
      return result;
    }
    result.exit_code = 1;
    const int asked = requests_.first();
    const std::string interrupted = fmt::format("interrupted by signal {} ({})", asked, signal_name(asked));
    if (failed_.empty()) {
      result.message = interrupted + " and killed";
      return result;
    }
    const size_t rank = culprit();
    const Worker& worker = workers_[rank];
    if (asked != 0 && worker.signal_number() == asked) {
      result.message = interrupted;
      return result;
    }
    result.failed_rank = static_cast<int>(rank);
    if (worker.exit_code() == 2) result.exit_code = 2;
    result.message = fmt::format("rank {} {}", options_.first_rank + result.failed_rank, worker.ending());
    const auto words = output_.last_words(static_cast<int>(rank));
    if (!words.error.empty()) {
      result.message += ": " + words.error;
      result.hint = words.hint;
    } else if (!words.lines.empty()) {
      result.message += "; it last wrote:";
      for (const auto& line : words.lines) result.message += "\n    " + line;
    }
    if (worker.signal_number() == SIGKILL && result.hint.empty())
      result.hint = "if nobody killed it, the kernel may have, for want of memory: see dmesg";
    return result;
  }

  const LaunchOptions& options_;
  SignalsBlocked signals_;
  RankOutput output_;
  std::vector<Worker> workers_;
  std::vector<size_t> failed_;  // in the order of their ends, without those ended by this supervisor
  bool ended_by_us_ = false;
  StopRequests requests_;  // the first was passed on to the ranks
  int64_t next_escalation_ns_ = kNever;
};

}  // namespace

LaunchResult supervise(const LaunchOptions& options) {
  check(options.num_ranks >= 1, "launch: {} ranks, expected at least 1", options.num_ranks);
  check(!options.command.empty(), "launch: no command");
  return Supervisor(options).run();
}

}  // namespace athanor::launch
