// The agent's connection to the launcher's first process (keeper.h), which starts ranks for it and keeps what has to outlive it.
//
//   KeeperLine keeper(PacketChannel(Descriptor(fd)));               // waits for what the agents before it have left
//   for (RankGiven& rank : keeper.ranks) adopt(rank);
//   RankGiven started = keeper.start({.worker = 3, .rank = 1, .world_size = 4});
//   keeper.hold({{"segment 0", fd}, ...});                         // all that is to be kept, by name: differences are sent
//   for (const KeeperMessage& message : keeper.take()) { ... }     // signals
//
// What hold() was given is kept when it returns, even if the agent is killed then. Only start() and refuse_...() wait for an
// answer: of a process that does nothing else, unless it is stopped. Errors: IoError from start(), and where the keeper is gone;
// Error for what no keeper says. Thread rule: one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "athanor/control/packet_channel.h"
#include "athanor/launch/keeper/keeper_messages.h"

namespace athanor::launch::keeper {

struct RankGiven {
  RankStarted started;
  Descriptor process, errors;  // errors: none, or what it writes to standard error
};

class KeeperLine {
 public:
  explicit KeeperLine(PacketChannel channel);

  TakeUp given;
  Descriptor socket, desk, pulse, notes;
  std::vector<RankGiven> ranks;
  std::map<std::string, Descriptor> kept;

  RankGiven start(const StartRank& request);
  std::string refuse_size(int num_ranks);
  std::string refuse_setting(const std::string& setting);
  void hold(const std::map<std::string, int>& descriptors);
  void tell(const AgentRequest& request, const std::vector<int>& descriptors = {});

  int fd() const { return channel_.fd(); }
  bool is_gone() const { return channel_.closed(); }
  std::vector<KeeperMessage> take();
  void wait(int timeout_ms) const;  // until there is something to take; -1: without an end

 private:
  std::optional<Packet> next_packet();  // waits; none: it is gone
  Packet answer();                      // to what was asked last
  std::string why_not();                // the same
  void send(const std::string& text, const std::vector<int>& descriptors);

  PacketChannel channel_;
  std::vector<KeeperMessage> waiting_;
  std::map<std::string, int> held_;
};

}  // namespace athanor::launch::keeper
