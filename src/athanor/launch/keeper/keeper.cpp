#include "athanor/launch/keeper/keeper.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/shared_memory.h"
#include "athanor/control/listener.h"
#include "athanor/control/pulse.h"
#include "athanor/launch/keeper/agent_notes.h"
#include "athanor/launch/keeper/job_number.h"
#include "athanor/launch/keeper/keeper_messages.h"
#include "athanor/launch/rank_command.h"
#include "athanor/launch/signals_blocked.h"

namespace athanor::launch::keeper {
namespace {

using control::Listener;
using control::PacketChannel;

constexpr int kLookMs = 500, kPauseMs = 1'000;
constexpr size_t kMostKeys = 100;  // in a packet
constexpr int64_t kMs = 1'000'000;

bool is_readable(int fd, int timeout_ms) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, timeout_ms) > 0;
}

class Keeper {
 public:
  explicit Keeper(const LaunchOptions& options)
      : options_(options),
        socket_(
            std::make_unique<Listener>(control::ListenerOptions{.runtime_folder = options.runtime_folder})),
        desk_(std::make_unique<Listener>(control::ListenerOptions{.runtime_folder = options.runtime_folder})),
        pulse_(create_shared_memory("athanor pulse", kSharedUnit)),
        notes_(create_agent_notes()),
        job_(random_job_number()) {}
  ~Keeper() { remove_job_file(); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  LaunchResult run() {
    begin_agent("");
    while (!has_ended()) {
      wait_for_something();
      if (has_ended()) break;
      if (is_readable(agent_->process_fd(), 0)) {
        agent_->reap();
        take_requests();  // what it said at last
        if (!has_ended() && !replace_agent(agent_->ending())) return give_up();
      } else if (silent_ns_ >= kSilentMs * kMs) {
        const std::string why =
            fmt::format("has been silent for {:.3g} s", static_cast<double>(silent_ns_) * 1e-9);
        kill_agent();
        take_requests();
        if (!has_ended() && !replace_agent(why, /*is_silent=*/true)) return give_up();
      }
    }
    see_agent_off();
    if (failure_ && failure_->io_code >= 0) throw IoError(failure_->what, failure_->io_code);
    if (failure_) throw Error(failure_->what, failure_->hint);
    return *result_;
  }

 private:
  struct Rank {
    int rank;
    Worker process;
  };
  bool has_ended() const { return result_ || failure_; }

  void begin_agent(const std::string& replaces) {
    auto [ours, theirs] = PacketChannel::pair();
    WorkerCommand command;
    command.arguments = options_.agent_command;
    command.arguments.push_back(std::to_string(theirs.fd()));
    command.environment = options_.environment;
    command.inherited_fds = {theirs.fd()};
    command.capture_stderr = false;
    command.dies_with_parent = false;  // it sees that the ranks save and end
    command.signal_mask = signals_.before();
    channel_.emplace(std::move(ours));
    agent_.emplace(command);
    agent_since_ns_ = look_ns_ = now_ns();
    silent_ns_ = 0;
    watch_.emplace(pulse_.get());
    send(take_up(replaces), {socket_->fd(), desk_->fd(), pulse_.get(), notes_.get()});
    for (const auto& [worker, rank] : ranks_) send_rank(worker, rank);
    Kept kept;
    std::vector<int> fds;
    for (const auto& [key, descriptor] : kept_) {
      kept.keys.push_back(key);
      fds.push_back(descriptor.get());
      if (fds.size() == kMostKeys) send(std::exchange(kept, {}), std::exchange(fds, {}));
    }
    if (!fds.empty()) send(kept, fds);
    send(AllIsGiven{});
    for (const StopAskedFor& stop : stops_) send(stop);
  }

  TakeUp take_up(const std::string& replaces) const {
    return {.num_ranks = options_.num_ranks,
            .max_restarts = options_.max_restarts,
            .min_ranks = options_.min_ranks,
            .max_ranks = options_.max_ranks,
            .master_command = options_.master_command,
            .run_folder = options_.run_folder,
            .begun_in = begun_in_,
            .system_root = options_.system_root,
            .grace_ms = options_.grace_ms,
            .stopped_ms = options_.stopped_ms,
            .timeout_ms = options_.timeout_ms,
            .hang_ms = options_.hang_ms,
            .warm_up_ms = options_.warm_up_ms,
            .hang = static_cast<int>(options_.hang),
            .tells_slow = options_.tells_slow,
            .terminal = options_.terminal,
            .job = job_,
            .socket = socket_->path(),
            .desk = desk_->path(),
            .keeper = getpid(),
            .replaces = replaces};
  }

  // Waits for an agent that does not read, as long as that one has a pulse.
  void send(const KeeperMessage& message, const std::vector<int>& descriptors = {}) {
    channel_->send(encode(message), descriptors);
    while (channel_->has_unsent() && !channel_->closed() && silent_ns_ < kSilentMs * kMs) {
      pollfd polled[] = {{channel_->fd(), POLLOUT, 0}, {agent_->process_fd(), POLLIN, 0}};
      poll(polled, 2, kLookMs);
      if (polled[1].revents != 0) return;
      channel_->flush();
      listen();
    }
  }

  void send_rank(int worker, const Rank& rank) {
    std::vector<int> fds = {rank.process.process_fd()};
    if (rank.process.stderr_fd() >= 0) fds.push_back(rank.process.stderr_fd());
    send(RankStarted{.worker = worker, .rank = rank.rank, .pid = rank.process.pid()}, fds);
  }

  void listen() {
    const int64_t now = now_ns();
    silent_ns_ = watch_->listen(now - std::exchange(look_ns_, now));
  }

  void wait_for_something() {
    pollfd polled[] = {
        {signals_.fd(), POLLIN, 0}, {channel_->fd(), POLLIN, 0}, {agent_->process_fd(), POLLIN, 0}};
    poll(polled, 3, kLookMs);
    if (polled[0].revents != 0) take_signals();
    if (polled[1].revents != 0) take_requests();
    listen();
  }

  void take_signals() {
    while (const int number = signals_.take()) {
      if (number == SIGTSTP) {
        pause();
        continue;
      }
      stops_.push_back({number, options_.clock()});
      send(stops_.back());
    }
  }

  // The agent stops the ranks; this process stops for the shell.
  void pause() {
    has_paused_ = false;
    was_paused_ = true;
    send(Pause{true});
    const int64_t until_ns = now_ns() + kPauseMs * kMs;
    while (!has_paused_ && !channel_->closed() && now_ns() < until_ns)
      if (is_readable(channel_->fd(), kLookMs)) take_requests();
    raise(SIGSTOP);
    send(Pause{false});
    look_ns_ = now_ns();
    watch_->forgive();
  }

  void take_requests() {
    try {
      while (auto packet = channel_->receive()) {
        AgentRequest request = decode_agent_request(packet->text);
        if (auto* keep = std::get_if<Keep>(&request)) {
          check(keep->keys.size() == packet->descriptors.size(), "keeper: {} keys with {} descriptors",
                keep->keys.size(), packet->descriptors.size());
          for (size_t i = 0; i < keep->keys.size(); ++i)
            kept_.insert_or_assign(keep->keys[i], std::move(packet->descriptors[i]));
        } else {
          std::visit([this](const auto& what) { take(what); }, request);
        }
      }
    } catch (const Error& error) {
      failure_ = AgentFailure{error.what()};
    }
  }

  void take(const StartRank& start) {
    const auto found = ranks_.find(start.worker);
    if (found != ranks_.end()) return send_rank(start.worker, found->second);
    const WorkerPlace place{.rank = start.rank,
                            .world_size = start.world_size,
                            .local_rank = start.rank,
                            .local_world_size = start.world_size,
                            .control = socket_->path(),
                            .job = job_,
                            .worker = start.worker};
    try {
      Rank rank{start.rank, Worker(rank_command(options_, place, signals_.before()))};
      send_rank(start.worker, ranks_.try_emplace(start.worker, std::move(rank)).first->second);
    } catch (const IoError& error) {
      send(RankStarted{.worker = start.worker, .rank = start.rank, .error = error.what()});
    }
  }
  void take(const RankEnded& ended) {
    const auto found = ranks_.find(ended.worker);
    if (found == ranks_.end()) return;
    found->second.process.reap();
    ranks_.erase(found);
  }
  void take(const SignalRank& signal) {
    if (const auto found = ranks_.find(signal.worker); found != ranks_.end())
      found->second.process.signal(signal.signal);
  }
  void take(const Keep&) {}
  void take(const Forget& forget) {
    for (const std::string& key : forget.keys) kept_.erase(key);
  }
  void take(const BegunIn& begun) { begun_in_ = begun.run_folder; }
  void take(const AskSize& asked) { send(WhyNot{options_.refuse_size(asked.num_ranks)}); }
  void take(const AskSetting& asked) { send(WhyNot{options_.refuse_setting(asked.setting)}); }
  void take(const Paused&) { has_paused_ = true; }
  void take(const JobEnded& ended) { result_ = ended.result; }
  void take(const AgentFailure& failure) { failure_ = failure; }

  void kill_agent() {
    agent_->signal(SIGKILL);
    agent_->reap();
  }

  // False: it is not worth it.
  bool replace_agent(const std::string& why, bool is_silent = false) {
    if (now_ns() - agent_since_ns_ >= kShortLifeMs * kMs) num_short_ = 0;
    if (agent_->signal_number() != SIGKILL || is_silent) ++num_short_;
    why_ = why;
    if (num_short_ >= kMostAgents) return false;
    if (std::exchange(was_paused_, false))
      for (const auto& [worker, rank] : ranks_) rank.process.signal(SIGCONT);
    begin_agent(why);
    return true;
  }

  LaunchResult give_up() {
    const std::string why = fmt::format(
        "{} agents of the job have ended one after the other, the last of which {}", kMostAgents, why_);
    options_.write(why + ": the ranks save and end\n");
    socket_.reset();
    desk_.reset();
    for (const auto& [worker, rank] : ranks_) rank.process.signal(SIGTERM);
    const int64_t until_ns = now_ns() + 2 * options_.grace_ms * kMs;
    bool is_good = !ranks_.empty();
    for (auto& [worker, rank] : ranks_) {
      const int64_t left_ms = std::max<int64_t>((until_ns - now_ns()) / kMs, 0);
      if (!is_readable(rank.process.process_fd(), static_cast<int>(left_ms))) rank.process.signal(SIGKILL);
      rank.process.reap();
      is_good =
          is_good && (rank.process.exit_code() == 0 || rank.process.exit_code() == kInterruptedExitCode);
    }
    ranks_.clear();
    return {.exit_code = is_good ? kInterruptedExitCode : 1, .failed_rank = -1, .message = why, .hint = {}};
  }

  // It has said how the job ended, and puts its things away.
  void see_agent_off() {
    while (agent_->running()) {
      if (is_readable(agent_->process_fd(), kLookMs)) {
        agent_->reap();
      } else {
        listen();
        if (silent_ns_ >= kSilentMs * kMs) kill_agent();
      }
    }
  }

  // The lock on it is still held here; an agent that could, has removed it.
  void remove_job_file() {
    constexpr std::string_view kKey = "job-file ";
    for (const auto& [key, descriptor] : kept_) {
      struct stat file {};
      if (key.starts_with(kKey) && fstat(descriptor.get(), &file) == 0 && file.st_nlink > 0)
        unlink(key.substr(kKey.size()).c_str());
    }
  }

  const LaunchOptions& options_;
  SignalsBlocked signals_;
  std::unique_ptr<Listener> socket_, desk_;
  Descriptor pulse_, notes_;
  std::string job_, begun_in_;
  std::map<int, Rank> ranks_;  // by worker
  std::map<std::string, Descriptor> kept_;
  std::vector<StopAskedFor> stops_;
  std::optional<Worker> agent_;
  std::optional<PacketChannel> channel_;
  std::optional<control::PulseWatch> watch_;
  int64_t agent_since_ns_ = 0, look_ns_ = 0, silent_ns_ = 0;
  int num_short_ = 0;  // agents in a row that failed soon
  std::string why_;
  bool has_paused_ = false, was_paused_ = false;
  std::optional<LaunchResult> result_;
  std::optional<AgentFailure> failure_;
};

}  // namespace

LaunchResult run_with_agents(const LaunchOptions& options) {
  return Keeper(options).run();
}

}  // namespace athanor::launch::keeper
