// The processes of an agent's ranks, by number, each with its connection and what it writes to standard error.
//
//   RankProcesses processes(output);
//   processes.start(worker, rank, command);
//   for (const int worker : processes.add_polled(polled)) { ... }          // three entries each: end, output, channel
//   if (RankProcess* one = processes.find(worker)) processes.read_output(*one);
//
// A process stays here after its end, until another one has its rank: its children may still write. Thread rule: one
// thread; the processes die with it.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "athanor/control/descriptor.h"
#include "athanor/control/messages.h"
#include "athanor/control/packet_channel.h"
#include "athanor/launch/output/rank_output.h"
#include "athanor/launch/worker.h"

namespace athanor::launch {

struct RankProcess {
  int rank;
  Worker process;
  std::optional<control::PacketChannel> channel{};  // none before it says hello, and after it broke
  int64_t left_ns = 0;                              // when it broke; 0: it has not
  std::vector<control::AgentMessage> unsent{};      // for when it has connected to this agent, too
};

class RankProcesses {
 public:
  explicit RankProcesses(RankOutput& output);

  // IoError if it cannot be started.
  void start(int worker, int rank, const WorkerCommand& command);
  void adopt(int worker, RankProcess process);          // that somebody else has started
  RankProcess* find(int worker);                        // null: there is none
  std::optional<int> worker_of(int64_t process) const;  // of those that run
  void signal_all(int number) const;
  std::vector<int> running() const;  // workers

  std::vector<int> add_polled(std::vector<pollfd>& polled) const;
  void read_output(RankProcess& one);  // what is there now, at most what a pipe holds
  void end_output();                   // the last of all

 private:
  RankOutput* output_;
  control::Descriptor nowhere_;
  std::map<int, RankProcess> processes_;
};

}  // namespace athanor::launch
