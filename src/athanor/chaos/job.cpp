#include "athanor/chaos/job.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <limits>

extern "C" {  // glibc 2.36 forgot it
#include <sys/pidfd.h>
}

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/chaos/judge.h"
#include "athanor/chaos/processes.h"

namespace athanor::chaos {
namespace {

constexpr size_t kLastWords = 1 << 12;
constexpr int kMostMs = 5'000;
constexpr int64_t kLookNs = 2'000'000;  // after a rank that carries out a plan tells nobody

std::string plan_of(const JobCommand& job) {
  return join_path(job.runs, job.name + ".faults");
}

launch::WorkerCommand command_of(const JobCommand& job, const JobTraces& traces) {
  launch::WorkerCommand command;
  command.arguments = {job.program, "launch", "-n", std::to_string(job.num_ranks), "--", "train", job.config};
  std::vector<std::string> settings = job.settings;
  settings.push_back("train.runs=" + job.runs);
  settings.push_back("train.name=" + job.name);
  for (const std::string& setting : settings) {
    command.arguments.emplace_back("--set");
    command.arguments.push_back(setting);
  }
  command.environment = traces.mark(job.environment);
  if (job.planned || job.takes_plans) {
    FaultPlan::create(plan_of(job));
    if (job.planned) FaultPlan(plan_of(job)).ask(job.planned->rank, job.planned->fault);
    command.environment.push_back(fmt::format("{}={}", FaultPlan::kVariable, plan_of(job)));
  }
  sigemptyset(&command.signal_mask);
  return command;
}

timespec time_until(int64_t until_ns) {
  const int64_t left = std::max<int64_t>(until_ns - now_ns(), 0);
  return {left / 1'000'000'000, left % 1'000'000'000};
}

}  // namespace

std::string JobCommand::run_folder() const {
  return join_path(runs, name);
}

void JobCommand::set(const std::vector<std::string>& more) {
  for (const std::string& setting : more) {
    const std::string key = setting.substr(0, setting.find('=') + 1);
    std::erase_if(settings, [&](const std::string& before) { return before.starts_with(key); });
    settings.push_back(setting);
  }
}

JobHandle::JobHandle(const JobCommand& command)
    : command_(command),
      watch_(command.run_folder()),
      launcher_(command_of(command, traces_)),
      asked_(command.planned) {
  if (command_.planned || command_.takes_plans) plan_.emplace(plan_of(command_));
}

JobHandle::~JobHandle() {
  if (plan_ && system_env().exists(plan_of(command_))) try {
      system_env().remove_all(plan_of(command_));
    } catch (const IoError&) {  // it lies among the runs, whose folder goes
    }
}

bool JobHandle::wait(const std::function<bool()>& done, int64_t until_ns) {
  while (!done()) {
    if (!launcher_.running() || now_ns() >= until_ns) return false;
    std::array<pollfd, 3> polled = {pollfd{launcher_.process_fd(), POLLIN, 0}, pollfd{watch_.fd(), POLLIN, 0},
                                    pollfd{launcher_.stderr_fd(), POLLIN, 0}};
    const timespec timeout = time_until(until_ns);
    ppoll(polled.data(), polled.size(), until_ns == std::numeric_limits<int64_t>::max() ? nullptr : &timeout,
          nullptr);
    if (polled[1].revents != 0 || polled[0].revents != 0) watch_.take();
    if (polled[2].revents != 0) read_errors();
    if (polled[0].revents != 0) {
      while (launcher_.stderr_fd() >= 0) read_errors();
      launcher_.reap();
    }
  }
  return true;
}

bool JobHandle::wait_for_end(int64_t until_ns) {
  wait([&] { return !launcher_.running(); }, until_ns);
  return !launcher_.running();
}

void JobHandle::end_now() {
  launcher_.signal(SIGKILL);
  wait_for_end(std::numeric_limits<int64_t>::max());
}

// What holds the pipe longer than the launcher is a leftover, and is not waited for: see wait().
void JobHandle::read_errors() {
  std::array<char, 1 << 14> bytes;
  pollfd polled{launcher_.stderr_fd(), POLLIN, 0};
  if (poll(&polled, 1, 0) <= 0) return launcher_.close_stderr();
  const ssize_t n = read(launcher_.stderr_fd(), bytes.data(), bytes.size());
  if (n <= 0) return launcher_.close_stderr();
  last_words_.append(bytes.data(), static_cast<size_t>(n));
  if (last_words_.size() > 2 * kLastWords) last_words_.erase(0, last_words_.size() - kLastWords);
}

void JobHandle::find_ranks() {
  ranks_.clear();
  for (const auto& [rank, pid] : ranks_of(launcher_.pid())) {
    control::Descriptor fd(pidfd_open(pid, 0));
    if (fd.get() >= 0) ranks_.emplace(rank, RankProcess{pid, std::move(fd)});
  }
  traces_.note_memory(launcher_.pid());
  for (const auto& [rank, process] : ranks_) traces_.note_memory(process.pid);
}

void JobHandle::note_strike() {
  const int64_t now = now_ns();
  if (!struck_)
    struck_ = Struck{.first_ns = now,
                     .last_ns = now,
                     .step = watch_.best_step(),
                     .generation = watch_.newest_generation(),
                     .num_steps = 0,
                     .num_events = 0};
  struck_->last_ns = now;
  struck_->num_steps = watch_.steps().size();
  struck_->num_events = watch_.events().size();
}

void JobHandle::strike(const std::vector<int>& ranks, int signal) {
  watch_.take();
  note_strike();
  for (const int rank : ranks) {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end() || pidfd_send_signal(found->second.fd.get(), signal, nullptr, 0) != 0)
      struck_->missed.push_back(rank);
    else
      found->second.was_struck = true;
  }
}

void JobHandle::signal(const std::vector<int>& ranks, int signal) {
  for (const int rank : ranks)
    if (const auto found = ranks_.find(rank); found != ranks_.end())
      pidfd_send_signal(found->second.fd.get(), signal, nullptr, 0);
}

void JobHandle::wait_for_end_of(int rank) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  pollfd polled{found->second.fd.get(), POLLIN, 0};
  poll(&polled, 1, kMostMs);
}

void JobHandle::strike_launcher(int signal) {
  watch_.take();
  note_strike();
  launcher_.signal(signal);
}

void JobHandle::strike_master(int signal, Journal journal) {
  strike_process(master_of(launcher_.pid()), signal, kMasterMissed, journal);
}

void JobHandle::strike_agent(int signal, Journal journal) {
  strike_process(agent_of(launcher_.pid()), signal, kAgentMissed, journal);
}

void JobHandle::strike_process(pid_t process, int signal, int missed, Journal journal) {
  watch_.take();
  std::error_code ignored;
  std::vector<std::filesystem::path> journals;
  for (std::filesystem::recursive_directory_iterator entry(traces_.runtime_folder(), ignored), end;
       journal == Journal::lost && !ignored && entry != end; entry.increment(ignored))
    if (entry->path().filename().string().starts_with("journal")) journals.push_back(entry->path());
  for (const auto& path : journals) std::filesystem::remove(path, ignored);
  note_strike();
  if (process <= 1 || kill(process, signal) != 0) struck_->missed.push_back(missed);
}

void JobHandle::ask(int rank, const PlannedFault& fault) {
  asked_ = {rank, fault};
  plan_->ask(rank, fault);
}

void JobHandle::forget_strike() {
  struck_.reset();
  notes_.clear();
  watch_.take();
  find_ranks();
}

void JobHandle::wait_for_plan() {
  const int rank = asked_->rank;
  const auto is_taken = [&] { return !plan_->is_asked(rank); };
  while (!wait(is_taken, now_ns() + kLookNs) && launcher_.running()) {
  }
  note_strike();
  if (const int64_t taken_ns = plan_->taken_ns(rank); taken_ns != 0)
    struck_->first_ns = struck_->last_ns = taken_ns;
  if (asked_->fault.step != PlannedFault::kSoon)
    struck_->step = std::min(struck_->step, asked_->fault.step - 1);
  if (plan_->is_asked(rank)) struck_->missed.push_back(rank);
}

const SeenStep* JobHandle::recovery_step() const {
  if (!struck_) return nullptr;
  for (size_t i = struck_->num_steps; i < watch_.steps().size(); ++i)
    if (watch_.steps()[i].generation > struck_->generation) return &watch_.steps()[i];
  return nullptr;
}

bool JobHandle::survivors_run() const {
  const auto now = ranks_of(launcher_.pid());
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    const auto& [rank, process] = entry;
    const auto found = now.find(rank);
    return process.was_struck || (found != now.end() && found->second == process.pid);
  });
}

}  // namespace athanor::chaos
