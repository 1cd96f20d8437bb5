#include "athanor/launch/agent.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/launch/event_log.h"
#include "athanor/launch/generation_memory.h"
#include "athanor/launch/master.h"
#include "athanor/launch/rank_output.h"
#include "athanor/launch/rank_processes.h"
#include "athanor/launch/reception.h"
#include "athanor/launch/signals_blocked.h"
#include "athanor/launch/stop_requests.h"
#include "athanor/launch/worker_place.h"

namespace athanor::launch {
namespace {

constexpr int64_t kTickNs = 100'000'000;
constexpr int kPacketsATurn = 256;  // of one worker, so that the others have theirs

std::string random_job() {
  std::array<unsigned char, kJobDigits / 2> bytes{};
  check(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "launch: no random bytes");
  std::string digits;
  for (const unsigned char byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

class Agent {
 public:
  explicit Agent(const LaunchOptions& options);
  LaunchResult run();

 private:
  void wait_for_something();
  void take_signals();
  void take_arrivals();
  void take_packets(int worker, int most);
  void take_message(int worker, const WorkerMessage& message);
  void take_ending(int worker, int64_t seen_ns);

  void act();
  void act(const StartWorker& start);
  void act(const FormWorld& form);
  void act(const BreakWorld& broken);
  void act(const LeaveWorld& left);
  void act(const ReleaseSlots& release);
  void keep_slots_of_last(int64_t generation);
  void act(const SendToWorker& send);
  void act(const SignalWorker& signal);
  void act(const Say& say);
  void act(const JobEvent& event) { events_.add(event); }

  WorkerCommand command_of(int rank, int worker) const;
  void send(int worker, const AgentMessage& message, const std::vector<int>& descriptors = {});
  LaunchResult conclude();

  const LaunchOptions& options_;
  bool control_;  // else all is in the environment
  SignalsBlocked signals_;
  RankOutput output_;
  EventLog events_;
  Master master_;
  StopRequests requests_;
  std::string job_;
  std::optional<Reception> reception_;
  std::map<int64_t, GenerationMemory> memories_;  // by generation
  RankProcesses processes_;
};

Agent::Agent(const LaunchOptions& options)
    : options_(options),
      control_(options.control && (options.world_size == 0 || options.world_size == options.num_ranks)),
      output_(options.num_ranks, options.write),
      events_(*options.env, [this](const std::string& why) { act(Say{why}); }),
      master_({.num_ranks = options.num_ranks,
               .first_rank = options.first_rank,
               .max_restarts = control_ ? options.max_restarts : 0,
               .min_ranks = options.min_ranks,
               .max_ranks = options.max_ranks,
               .grace_ns = options.grace_ms * 1'000'000,
               .meet = control_}),
      processes_(output_) {
  if (control_) {
    job_ = random_job();
    reception_.emplace(ListenerOptions{.runtime_folder = options.runtime_folder});
  } else {
    memories_.try_emplace(0, options.num_ranks, 0);
  }
}

LaunchResult Agent::run() {
  master_.start(now_ns());
  act();
  while (!master_.done()) {
    wait_for_something();
    const int64_t now = now_ns();
    output_.flush(now);
    if (now >= master_.next_tick_ns()) master_.tick(now);
    act();
  }
  processes_.end_output();
  return conclude();
}

void Agent::wait_for_something() {
  std::vector<pollfd> polled = {{signals_.fd(), POLLIN, 0}};
  const std::vector<int> workers = processes_.add_polled(polled);
  if (reception_) reception_->add_polled(polled);
  int64_t timeout_ns = master_.next_tick_ns();
  if (timeout_ns != kNeverNs) timeout_ns = std::max<int64_t>(timeout_ns - now_ns(), 0);
  if (output_.holds()) timeout_ns = std::min(timeout_ns, kTickNs);
  poll(polled.data(), polled.size(),
       timeout_ns == kNeverNs ? -1 : static_cast<int>(timeout_ns / 1'000'000 + 1));
  const int64_t seen_ns = now_ns();
  if (polled[0].revents != 0) take_signals();
  take_arrivals();
  for (size_t i = 0; i < workers.size(); ++i) {
    const pollfd* of = &polled[1 + 3 * i];
    RankProcess* one = processes_.find(workers[i]);
    if (one == nullptr) continue;  // another process has taken its rank just now
    if (of[1].revents != 0) processes_.read_output(*one);
    if (of[2].revents != 0) take_packets(workers[i], kPacketsATurn);
    if (of[0].revents != 0) take_ending(workers[i], seen_ns);
  }
}

void Agent::take_signals() {
  while (const int number = signals_.take()) {
    if (number == SIGTSTP) {
      processes_.signal_all(SIGSTOP);
      raise(SIGSTOP);
      processes_.signal_all(SIGCONT);
      continue;
    }
    const StopMeaning meaning = requests_.take(number, options_.clock());
    if (meaning != StopMeaning::same) master_.stop(number, meaning == StopMeaning::again, now_ns());
  }
}

void Agent::take_arrivals() {
  if (!reception_) return;
  for (Arrival& arrival : reception_->take()) {
    const auto worker = processes_.worker_of(arrival.process);
    RankProcess* one = worker ? processes_.find(*worker) : nullptr;
    if (one == nullptr || one->channel) continue;  // a child of a worker, or none of ours
    if (!arrival.error.empty()) {
      master_.refused(*worker, arrival.error, now_ns());
    } else if (arrival.hello.job == job_ && arrival.hello.worker == *worker) {
      one->channel = std::move(arrival.channel);
      master_.hello(*worker, now_ns());
      take_packets(*worker, kPacketsATurn);
    }
  }
}

void Agent::take_packets(int worker, int most) {
  std::optional<PacketChannel>& channel = processes_.find(worker)->channel;
  try {
    while (channel && most-- > 0) {
      channel->flush();
      const auto packet = channel->receive();
      if (channel->closed()) channel.reset();
      if (!packet) return;
      take_message(worker, decode_worker_message(packet->text));
    }
  } catch (const Failure& error) {
    channel.reset();
    master_.refused(worker, error.what(), now_ns());
  }
}

void Agent::take_message(int worker, const WorkerMessage& message) {
  const int64_t now = now_ns();
  if (const auto* ready = std::get_if<Ready>(&message)) master_.ready(worker, ready->why, now);
  if (const auto* progress = std::get_if<Progress>(&message)) master_.progress(worker, *progress);
  if (const auto* farewell = std::get_if<Farewell>(&message)) master_.farewell(worker, *farewell);
  if (const auto* begun = std::get_if<Begun>(&message)) {
    if (begun->in_place) keep_slots_of_last(begun->generation);
    master_.begun(worker, begun->generation, begun->step, now);
    act();
    events_.open(begun->run_folder);
  }
}

void Agent::take_ending(int worker, int64_t seen_ns) {
  take_arrivals();
  take_packets(worker, std::numeric_limits<int>::max());  // what it said at last
  RankProcess& one = *processes_.find(worker);
  processes_.read_output(one);
  Worker& process = one.process;
  process.reap();
  one.channel.reset();
  master_.exited(worker,
                 {.exit_code = process.exit_code(),
                  .signal_number = process.signal_number(),
                  .how = process.ending(),
                  .seen_ns = seen_ns},
                 now_ns());
  act();  // the others are told before anything else is looked at
}

void Agent::act() {
  for (auto actions = master_.take_actions(); !actions.empty(); actions = master_.take_actions())
    for (const MasterAction& action : actions) std::visit([this](const auto& one) { act(one); }, action);
}

WorkerCommand Agent::command_of(int rank, int worker) const {
  WorkerPlace place;
  place.rank = options_.first_rank + rank;
  place.local_rank = rank;
  place.local_world_size = master_.size();
  place.world_size = !control_ && options_.world_size > 0 ? options_.world_size : master_.size();
  WorkerCommand command;
  command.arguments = options_.command;
  if (control_) {
    place.control = reception_->path();
    place.job = job_;
    place.worker = worker;
  } else {
    const GenerationMemory& memory = memories_.at(0);
    place.segment_fd = memory.segment.fd();
    place.snapshot_fd = memory.slots.at(static_cast<size_t>(rank)).get();
    command.inherited_fds = {place.segment_fd, place.snapshot_fd};
  }
  command.environment = place_into(options_.environment, place);
  command.own_stdout = rank == 0;
  command.capture_stderr = rank != 0 || !options_.terminal;
  command.signal_mask = signals_.before();
  return command;
}

void Agent::act(const StartWorker& start) {
  try {
    processes_.start(start.worker, start.rank, command_of(start.rank, start.worker));
  } catch (const IoError& error) {
    if (start.worker < options_.num_ranks) throw;  // at the start nothing is lost by it
    master_.exited(start.worker, {.how = fmt::format("could not be started: {}", error.what())}, now_ns());
  }
}

void Agent::act(const FormWorld& form) {
  std::erase_if(memories_, [&](const auto& entry) { return entry.first != form.left_generation; });
  const int size = static_cast<int>(form.members.size());
  try {
    memories_.try_emplace(form.generation, size, static_cast<int>(form.generation));
  } catch (const IoError& error) {
    master_.failed(fmt::format("generation {}: {}", form.generation, error.what()), now_ns());
    return;
  }
  const GenerationMemory& memory = memories_.at(form.generation);
  for (int rank = 0; rank < size; ++rank) {
    const FormWorld::Member& member = form.members[static_cast<size_t>(rank)];
    std::vector<int> descriptors = {memory.segment.fd(), memory.slots[static_cast<size_t>(rank)].get()};
    for (const int left : member.left)
      descriptors.push_back(memories_.at(form.left_generation).slots.at(static_cast<size_t>(left)).get());
    send(
        member.worker,
        Meet{.generation = form.generation, .rank = rank, .size = size, .why = form.why, .left = member.left},
        descriptors);
  }
}

void Agent::act(const BreakWorld& broken) {
  if (!memories_.empty()) memories_.rbegin()->second.segment.mark_dead(broken.rank, broken.why);
}

void Agent::act(const LeaveWorld& left) {
  if (!memories_.empty()) memories_.rbegin()->second.segment.mark_left(left.rank);
}

// Of what is held the oldest is what the last generation that had begun left.
void Agent::keep_slots_of_last(int64_t generation) {
  const auto now = memories_.find(generation), last = memories_.begin();
  if (now == memories_.end() || now == last || now->second.size() != last->second.size()) return;
  now->second.slots = std::move(last->second.slots);
}

void Agent::act(const ReleaseSlots& release) {
  std::erase_if(memories_, [&](const auto& entry) { return entry.first < release.before; });
}

void Agent::act(const SendToWorker& to) {
  send(to.worker, to.message);
}

void Agent::act(const SignalWorker& signal) {
  if (const RankProcess* one = processes_.find(signal.worker)) one->process.signal(signal.number);
}

void Agent::act(const Say& say) {
  options_.write((options_.terminal ? "\r\033[K" : "") + say.line + "\n");
}

// A worker that is gone is noticed by its process.
void Agent::send(int worker, const AgentMessage& message, const std::vector<int>& descriptors) {
  RankProcess* one = processes_.find(worker);
  if (one == nullptr || !one->channel) return;
  try {
    one->channel->send(encode(message), descriptors);
  } catch (const IoError& error) {
    one->channel.reset();
    master_.refused(worker, error.what(), now_ns());
  }
}

LaunchResult Agent::conclude() {
  std::optional<int> blamed;
  if (!memories_.empty())
    if (const auto failure = memories_.rbegin()->second.segment.failure()) blamed = failure->rank;
  LaunchResult result = result_of(master_.verdict(blamed), output_);
  events_.add(
      {.event = "end", .step = master_.step(), .generation = master_.generation(), .cause = summary(result)});
  return result;
}

}  // namespace

LaunchResult run_agent(const LaunchOptions& options) {
  check(options.num_ranks >= 1, "launch: {} ranks, expected at least 1", options.num_ranks);
  check(!options.command.empty(), "launch: no command");
  return Agent(options).run();
}

}  // namespace athanor::launch
