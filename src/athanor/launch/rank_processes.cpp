#include "athanor/launch/rank_processes.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <utility>

#include "athanor/base/clock.h"

namespace athanor::launch {

RankProcesses::RankProcesses(RankOutput& output)
    : output_(&output), nowhere_(open("/dev/null", O_WRONLY | O_CLOEXEC)) {}

void RankProcesses::start(int worker, int rank, const WorkerCommand& command) {
  adopt(worker, {rank, Worker(command)});
}

void RankProcesses::adopt(int worker, RankProcess process) {
  const int rank = process.rank;
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    const bool before = entry->second.rank == rank && !entry->second.process.running();
    if (before) read_output(entry->second);
    entry = before ? processes_.erase(entry) : std::next(entry);
  }
  output_->begin(rank, now_ns());
  processes_.try_emplace(worker, std::move(process));
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
  // What comes meanwhile is for the next turn: a rank that never stops writing would keep this thread for ever.
  int there = 0;
  const int fd = one.process.stderr_fd();
  if (fd < 0 || ioctl(fd, FIONREAD, &there) != 0) return;
  pollfd polled{fd, POLLIN, 0};
  if (there == 0 && poll(&polled, 1, 0) <= 0) return;
  // What is neither shown nor kept is not even copied.
  for (size_t left_out = output_->leave_out_of(one.rank, static_cast<size_t>(there), now_ns());
       left_out > 0;) {
    const ssize_t length = splice(fd, nullptr, nowhere_.get(), nullptr, left_out, 0);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) break;  // it is read below
    left_out -= static_cast<size_t>(length);
    there -= static_cast<int>(length);
  }
  char bytes[65536];
  do {
    const ssize_t length = read(fd, bytes, sizeof(bytes));
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) {
      one.process.close_stderr();
      output_->end_of(one.rank, now_ns());
      return;
    }
    output_->add(one.rank, {bytes, static_cast<size_t>(length)}, now_ns());
    there -= static_cast<int>(length);
  } while (there > 0);
}

void RankProcesses::end_output() {
  for (auto& [worker, one] : processes_) {
    read_output(one);
    output_->end_of(one.rank, now_ns());
  }
}

}  // namespace athanor::launch
