#include "athanor/launch/agent.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/launch/agent_loop.h"
#include "athanor/launch/keeper/job_number.h"
#include "athanor/launch/keeper/keeper.h"

namespace athanor::launch {
namespace {

constexpr int64_t kTickNs = 100'000'000, kHardwareNs = 10'000'000'000;
constexpr int kPacketsATurn = 256;  // of one worker, so that the others have theirs

JobPlace place_of(const KeeperLine* keeper) {
  JobPlace place = this_place();
  if (keeper != nullptr) place.pid = keeper->given.keeper;
  return place;
}

HangWatchOptions hang_limits(int64_t step_ms) {
  HangWatchOptions options;
  options.least_ns[static_cast<size_t>(ProgressKind::step)] = step_ms * 1'000'000;
  return options;
}

}  // namespace

AgentLoop::AgentLoop(const LaunchOptions& options, KeeperLine* keeper)
    : options_(options),
      keeper_(keeper),
      control_(options.control && (options.world_size == 0 || options.world_size == options.num_ranks)),
      notes_(keeper == nullptr ? keeper::create_agent_notes() : std::move(keeper->notes)),
      writer_(options.write),
      output_(options.num_ranks, [this](std::string_view bytes) { writer_.add(bytes); }),
      record_(*options.env, place_of(keeper), [this](const std::string& why) { act(Say{why}); }),
      master_(master_options()),
      saver_(*options.env),
      processes_(output_),
      watches_({.stopped = ProgressWatch({.kill_ns = options.stopped_ms * 1'000'000}),
                .hangs = HangWatch(hang_limits(options.hang_ms)),
                .hardware = HardwareCounters(options.system_root),
                .memory_kills = MemoryKills(options.system_root)}) {
  if (keeper_ != nullptr) {
    adopt();
  } else if (control_) {
    job_ = random_job_number();
    pulse_.emplace();
    desk_.emplace(ListenerOptions{.runtime_folder = options.runtime_folder});
  } else {
    memories_.try_emplace(0, options.num_ranks, 0);
  }
  open_run(options.run_folder);
}

// Where workers arrive is made first: in its folder lies the journal.
MasterFrontOptions AgentLoop::master_options() {
  if (keeper_ != nullptr)
    reception_.emplace(std::move(keeper_->socket), keeper_->given.socket);
  else if (control_)
    reception_.emplace(ListenerOptions{.runtime_folder = options_.runtime_folder});
  return {.master = {.num_ranks = options_.num_ranks,
                     .first_rank = options_.first_rank,
                     .max_restarts = control_ ? options_.max_restarts : 0,
                     .min_ranks = options_.min_ranks,
                     .max_ranks = options_.max_ranks,
                     .grace_ns = options_.grace_ms * 1'000'000,
                     .warm_up_ns = control_ ? options_.warm_up_ms * 1'000'000 : 0,
                     .meet = control_},
          .command = control_ ? options_.master_command : std::vector<std::string>(),
          .environment = options_.environment,
          .folder = control_ ? reception_->folder() : "",
          .signal_mask = signals_.before(),
          .takes_up = keeper_ == nullptr ? std::nullopt : std::optional(notes_.done()),
          .while_waiting = [this] { read_output(); },
          .on_replaced = [this](const std::string& why) { tell_replaced(why); }};
}

LaunchResult AgentLoop::run() {
  master_.start(now_ns());
  if (keeper_ != nullptr) go_on_where_left();
  act();
  if (keeper_ != nullptr) tell_takeover();
  while (!master_.done()) {
    wait_for_something();
    const int64_t now = now_ns();
    output_.flush(now);
    look_at_ranks(now);
    look_for_hang(now);
    if (now - watches_.hardware_look_ns >= kHardwareNs) look_at_hardware(now);
    if (now >= master_.next_tick_ns()) master_.tick(now);
    act();
    if (now >= record_.next_ns()) record_.renew(master_.status(now).goodput, now);
  }
  processes_.end_output();
  end_saves();
  return conclude();
}

void AgentLoop::wait_for_something() {
  std::vector<pollfd> polled = {{signals_.fd(), POLLIN, 0}};
  const std::vector<int> workers = processes_.add_polled(polled);
  const size_t reception = polled.size();
  if (reception_) reception_->add_polled(polled);
  const size_t desk = polled.size();
  if (desk_) desk_->add_polled(polled);
  const size_t after_desk = polled.size();
  polled.push_back({saver_.fd(), POLLIN, 0});
  master_.add_polled(polled);
  if (keeper_ != nullptr) polled.push_back({keeper_->fd(), POLLIN, 0});
  int64_t timeout_ns = std::min(master_.next_tick_ns(), record_.next_ns());
  if (timeout_ns != kNeverNs) timeout_ns = std::max<int64_t>(timeout_ns - now_ns(), 0);
  if (output_.holds()) timeout_ns = std::min(timeout_ns, kTickNs);
  if (control_) timeout_ns = std::min(timeout_ns, kLookNs);
  poll(polled.data(), polled.size(),
       timeout_ns == kNeverNs ? -1 : static_cast<int>(timeout_ns / 1'000'000 + 1));
  const int64_t seen_ns = now_ns();
  if (polled[0].revents != 0) take_signals();
  if (keeper_ != nullptr) take_keeper();
  // Asking a socket in vain whether somebody connects costs as much as all else that a packet of a rank does.
  const auto is_ready = [&](size_t first, size_t end) {
    return std::any_of(polled.begin() + static_cast<std::ptrdiff_t>(first),
                       polled.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const pollfd& one) { return one.revents != 0; });
  };
  if (is_ready(reception, desk)) take_arrivals();
  for (size_t i = 0; i < workers.size(); ++i) {
    const pollfd* of = &polled[1 + 3 * i];
    RankProcess* one = processes_.find(workers[i]);
    if (one == nullptr) continue;  // another process has taken its rank just now
    if (of[1].revents != 0) processes_.read_output(*one);
    if (of[2].revents != 0) take_packets(workers[i], kPacketsATurn);
    if (of[0].revents != 0) take_ending(workers[i], seen_ns);
  }
  if (is_ready(desk, after_desk)) take_requests();
  take_saves();
  master_.look();
}

void AgentLoop::take_signals() {
  while (const int number = signals_.take()) {
    if (number == SIGTSTP && keeper_ != nullptr) continue;  // the keeper is asked that
    if (number == SIGTSTP) {
      processes_.signal_all(SIGSTOP);
      raise(SIGSTOP);
      processes_.signal_all(SIGCONT);
      continue;
    }
    take_stop(number, options_.clock());
  }
}

void AgentLoop::take_stop(int number, int64_t at_ns) {
  const StopMeaning meaning = requests_.take(number, at_ns);
  if (meaning == StopMeaning::first && master_.stop_signal() != 0)
    return;  // an agent before this one took it
  if (meaning == StopMeaning::again) saver_.give_up();
  if (meaning != StopMeaning::same) master_.stop(number, meaning == StopMeaning::again, now_ns());
}

void AgentLoop::take_arrivals() {
  if (!reception_) return;
  for (Arrival& arrival : reception_->take()) {
    const auto worker = processes_.worker_of(arrival.process);
    RankProcess* one = worker ? processes_.find(*worker) : nullptr;
    if (one == nullptr || one->channel) continue;  // a child of a worker, or none of ours
    if (!arrival.error.empty()) {
      master_.refused(*worker, arrival.error, now_ns());
    } else if (arrival.hello.job == job_ && arrival.hello.worker == *worker) {
      one->channel = std::move(arrival.channel);
      one->left_ns = 0;
      welcome(*worker);
      master_.hello(*worker, now_ns());
      take_packets(*worker, kPacketsATurn);
    }
  }
}

// Who comes from another agent may not have had what that one sent.
void AgentLoop::welcome(int worker) {
  send(worker, control::Welcome{notes_.taken(worker)});
  for (const AgentMessage& message : std::exchange(processes_.find(worker)->unsent, {}))
    send(worker, message);
  if (master_.warm_up_round() >= 0) send(worker, control::WarmUp{master_.warm_up_round()});
  if (!newest_ || master_.begun_generation() >= newest_->generation) return;
  for (size_t rank = 0; rank < newest_->members.size(); ++rank)
    if (newest_->members[rank].worker == worker) send_meet(rank);
}

// It waited for a world that another agent has formed: it is told of it in welcome().
bool AgentLoop::is_met_already(int worker, const WorkerMessage& message) const {
  const auto* ready = std::get_if<Ready>(&message);
  return ready != nullptr && newest_ && ready->generation < newest_->generation &&
         std::any_of(newest_->members.begin(), newest_->members.end(),
                     [&](const FormWorld::Member& member) { return member.worker == worker; });
}

void AgentLoop::take_packets(int worker, int most) {
  std::optional<PacketChannel>& channel = processes_.find(worker)->channel;
  try {
    while (channel && most-- > 0) {
      channel->flush();
      const auto packet = channel->receive();
      if (channel->closed()) {
        channel.reset();
        processes_.find(worker)->left_ns = now_ns();
      }
      if (!packet) return;
      const control::NumberedMessage said = control::decode_numbered_message(packet->text);
      if (said.number > 0 && said.number <= notes_.taken(worker)) continue;
      take_message(worker, said.message, packet->descriptors);
      if (said.number > 0) notes_.taken(worker, said.number);
    }
  } catch (const Failure& error) {
    channel.reset();
    master_.refused(worker, error.what(), now_ns());
  }
}

void AgentLoop::take_message(int worker, const WorkerMessage& message,
                             const std::vector<control::Descriptor>& descriptors) {
  const int64_t now = now_ns();
  if (const auto* persist = std::get_if<control::Persist>(&message))  // nothing is decided by it
    return start_save(*persist, descriptors);
  if (const auto* event = std::get_if<Event>(&message)) {  // nothing is decided by it
    JobEvent told = event->what;
    told.generation = master_.generation();
    tell_not_set(told);
    return record_.add(told);
  }
  if (const auto* progress = std::get_if<Progress>(&message)) take_progress(worker, *progress, now);
  const auto* begun = std::get_if<Begun>(&message);
  if (begun != nullptr && begun->in_place) keep_slots_of_last(begun->generation);
  if (!std::holds_alternative<Hello>(message) && !is_met_already(worker, message))
    master_.said(worker, message, now);
  if (begun != nullptr) {
    act();
    record_.begun(begun->run_folder);
    if (keeper_ != nullptr) keeper_->tell(BegunIn{begun->run_folder});
    newest_step_ = begun->step;
    watches_.hangs.segment_begins();
    if (begun->generation == master_.generation())
      watches_.slow.segment_begins(processes_.find(worker)->rank, begun->work);
    watches_.memory.begin();
    tell_begun(*begun);
    try {
      open_run(begun->run_folder);
    } catch (const Failure& error) {
      master_.failed(error.what(), now);
    }
  }
  if (const auto* saved = std::get_if<Saved>(&message)) tell_saved(*saved);
}

void AgentLoop::take_progress(int worker, const Progress& progress, int64_t now_ns) {
  if (progress.kind == ProgressKind::step) {
    if (progress.step > newest_step_) step_ns_ = now_ns;
    newest_step_ = std::max(newest_step_, progress.step);
    watches_.stopped.progress(progress.step, now_ns);
    look_at_memory(now_ns);
  }
  if (progress.generation == master_.generation())
    watches_.hangs.progress(processes_.find(worker)->rank, progress, now_ns);
  look_for_slow(worker, progress, now_ns);
}

void AgentLoop::take_ending(int worker, int64_t seen_ns) {
  take_arrivals();
  take_packets(worker, std::numeric_limits<int>::max());  // what it said at last
  RankProcess& one = *processes_.find(worker);
  processes_.read_output(one);
  Worker& process = one.process;
  process.reap();
  one.channel.reset();
  const int rank = one.rank;
  watches_.stopped.forget(rank);
  watches_.hangs.forget(rank);
  watches_.memory.forget(rank);
  const RankEnd end = end_of(worker, seen_ns);
  master_.exited(worker, end, now_ns());
  act();  // the others are told before anything else is looked at
  if (keeper_ != nullptr) keeper_->tell(RankEnded{worker});
  tell_killed(worker, rank, end.how);
}

// A rank that writes much must not wait for a master that is silent.
void AgentLoop::read_output() {
  for (const int worker : processes_.running()) processes_.read_output(*processes_.find(worker));
  output_.flush(now_ns());
}

// Nobody waits for a master, unless something happens to a rank meanwhile.
void AgentLoop::tell_replaced(const std::string& why) {
  act(Say{fmt::format("the master of the job {}: another one takes up from its journal", why)});
  record_.add({.event = "master",
               .step = master_.step(),
               .generation = master_.generation(),
               .cause = fmt::format("the master {}", why)});
}

LaunchResult AgentLoop::conclude() {
  std::optional<int> blamed;
  if (GenerationMemory* memory = newest_memory())
    if (const auto failure = memory->segment.failure()) blamed = failure->rank;
  const Verdict verdict = master_.verdict(blamed);
  LaunchResult result = result_of(verdict, output_);
  tell_failure(verdict, result);
  record_.add(
      {.event = "end", .step = master_.step(), .generation = master_.generation(), .cause = summary(result)});
  record_.finish(result.exit_code, summary(result), master_.status(now_ns()).goodput);
  result.run_folder = record_.begun_in();
  return result;
}

LaunchResult run_agent(const LaunchOptions& options) {
  check(options.num_ranks >= 1, "launch: {} ranks, expected at least 1", options.num_ranks);
  check(!options.command.empty(), "launch: no command");
  const bool is_one_host = options.world_size == 0 || options.world_size == options.num_ranks;
  if (options.control && is_one_host && !options.agent_command.empty() && !options.master_command.empty())
    return run_with_agents(options);
  return AgentLoop(options).run();
}

}  // namespace athanor::launch
