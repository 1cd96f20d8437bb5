#include "athanor/launch/rank_processes.h"

#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <utility>

#include "athanor/base/clock.h"

namespace athanor::launch {

void RankProcesses::start(int worker, int rank, const WorkerCommand& command) {
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    const bool before = entry->second.rank == rank && !entry->second.process.running();
    if (before) read_output(entry->second);
    entry = before ? processes_.erase(entry) : std::next(entry);
  }
  output_->begin(rank, now_ns());
  processes_.try_emplace(worker, RankProcess{rank, Worker(command)});
}

RankProcess* RankProcesses::find(int worker) {
  const auto found = processes_.find(worker);
  return found == processes_.end() ? nullptr : &found->second;
}

std::optional<int> RankProcesses::worker_of(int64_t process) const {
  for (const auto& [worker, one] : processes_)
    if (one.process.running() && one.process.pid() == process) return worker;
  return std::nullopt;
}

std::vector<int> RankProcesses::running() const {
  std::vector<int> workers;
  for (const auto& [worker, one] : processes_)
    if (one.process.running()) workers.push_back(worker);
  return workers;
}

void RankProcesses::signal_all(int number) const {
  for (const auto& [worker, one] : processes_) one.process.signal(number);
}

std::vector<int> RankProcesses::add_polled(std::vector<pollfd>& polled) const {
  std::vector<int> workers;
  for (const auto& [worker, one] : processes_) {  // negative descriptors are skipped by poll
    workers.push_back(worker);
    polled.push_back({one.process.process_fd(), POLLIN, 0});
    polled.push_back({one.process.stderr_fd(), POLLIN, 0});
    const bool unsent = one.channel && one.channel->has_unsent();
    polled.push_back({one.channel ? one.channel->fd() : -1,
                      static_cast<decltype(pollfd::events)>(unsent ? POLLIN | POLLOUT : POLLIN), 0});
  }
  return workers;
}

void RankProcesses::read_output(RankProcess& one) {
  char bytes[65536];
  while (one.process.stderr_fd() >= 0) {
    pollfd polled{one.process.stderr_fd(), POLLIN, 0};
    if (poll(&polled, 1, 0) <= 0) return;
    const ssize_t length = read(one.process.stderr_fd(), bytes, sizeof(bytes));
    if (length > 0) {
      output_->add(one.rank, {bytes, static_cast<size_t>(length)}, now_ns());
    } else if (length == 0 || errno != EINTR) {
      one.process.close_stderr();
      output_->end_of(one.rank, now_ns());
    }
  }
}

void RankProcesses::end_output() {
  for (auto& [worker, one] : processes_) {
    read_output(one);
    output_->end_of(one.rank, now_ns());
  }
}

}  // namespace athanor::launch
