// One rank's connection to a group over a network transport: exchanges call headers before data move, waits for
// messages, and detects dead, mismatched and late ranks, which break the group (law 8).
//
//   link.begin(call);                        // returns when all ranks have sent the same call
//   Transfers transfers(link, channel);
//   transfers.recv(peer, buffer, bytes);
//   transfers.send(peer, data, bytes);       // counted in the traffic
//   transfers.wait();                        // PeerLost, Timeout, ... on all members
//   link.end();
//
// Thread rule: begin() to end() by one thread at a time; throw_if_broken(), fail(), await() by any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/call_header.h"
#include "athanor/comm/network/transport.h"
#include "athanor/comm/options.h"
#include "athanor/comm/step_clock.h"
#include "athanor/comm/traffic.h"

namespace athanor::comm::network {

// The same on all members.
struct WireGroupIds {
  uint64_t group;     // unique among all groups; failures are reported by it
  uint64_t channels;  // unique among groups that share two members; the channels of messages derive from it
};

class WireLink {
 public:
  struct Pending {
    std::unique_ptr<Wire::Message> message;
    int peer;  // rank in the group
    bool done = false;
  };
  // For reports and errors of a long wait: texts, and when it is late.
  struct Waiting {
    std::function<std::string()> place;          // group 'world', collective 17 all_reduce(f32[8], "x")
    std::function<std::string(int rank)> doing;  // has called no collective yet
    int64_t late_after_ns;
    std::function<void(int rank)> on_done = {};  // called when a message of this peer is done
  };

  // `members`: ranks of the transport's world, ascending.
  WireLink(std::shared_ptr<Wire> wire, std::vector<int> members, const WireGroupIds& ids,
           GroupOptions options);

  const GroupOptions& options() const { return options_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  uint64_t id() const { return ids_.group; }
  // The channel for messages of one purpose.
  uint64_t channel(const std::string& purpose) const;
  std::unique_ptr<Wire::Message> send(int to, uint64_t channel, const void* data, size_t size_bytes);
  std::unique_ptr<Wire::Message> recv(int from, uint64_t channel, void* data, size_t size_bytes);

  void throw_if_broken();
  void look_for_losses();  // throws if the group is broken or a member is lost
  // Breaks the group and throws.
  [[noreturn]] void fail(GroupFailure::Kind kind, int rank, const std::string& text);
  GroupFailure failure_of(const std::exception& error);       // breaks the group; returns its first failure
  void check_generation(const CallHeader& theirs, int rank);  // fails if the rank's world is another one
  void await(std::vector<Pending>& pending, const Waiting& waiting);
  void abort(const std::string& reason);

  void begin(const Call& call, int64_t extra = 0);
  int64_t extra(int rank) const { return headers_[static_cast<size_t>(rank)].extra; }
  void await(std::vector<Pending>& pending);  // messages of the call in progress
  void end();
  void count_sent(size_t size_bytes) { sent_bytes_ += static_cast<int64_t>(size_bytes); }
  TrafficCounter& traffic() { return traffic_; }
  const TrafficCounter& traffic() const { return traffic_; }
  void leave();               // tells the other ranks; the last call
  std::string place() const;  // of the call in progress

 private:
  struct Watch;  // one wait's clock
  static void wait_slice(Pending& one, const Waiting& waiting);
  void look_around(std::vector<Pending>& pending, size_t first, const Waiting& waiting, Watch& watch);
  std::string missing(std::vector<Pending>& pending, size_t first, const Waiting& waiting);
  void check_header(int rank);
  void play_fault();
  std::string last_seen(int rank) const;
  std::string text_of(int rank) const;  // rank 1 (3 of the world)
  [[noreturn]] void lose(int rank, std::string reason, const Waiting& waiting);
  Waiting in_call() const;

  std::shared_ptr<Wire> wire_;
  std::vector<int> members_;
  int rank_ = 0;
  const WireGroupIds ids_;
  const uint64_t header_channel_;
  GroupOptions options_;
  StepClock clock_;
  TrafficCounter traffic_;
  int64_t sent_bytes_ = 0;  // to other ranks, in the call in progress
  uint64_t sequence_ = 0;   // of the call in progress
  Call call_;
  // By rank: the receive buffer; the latest header; whether the header of the call in progress has arrived. Own
  // included.
  std::vector<CallHeader> incoming_, headers_;
  std::vector<bool> came_;
  std::vector<Pending> sent_headers_;
};

// Messages of the call in progress that are waited for together. Messages of no bytes are not sent.
class Transfers {
 public:
  Transfers(WireLink& link, uint64_t channel) : link_(link), channel_(channel) {}
  void send(int to, const void* data, size_t size_bytes);
  void send_uncounted(int to, const void* data, size_t size_bytes);  // not in the traffic: tables, counts
  void recv(int from, void* data, size_t size_bytes);
  void wait();

 private:
  WireLink& link_;
  uint64_t channel_;
  std::vector<WireLink::Pending> pending_;
};

}  // namespace athanor::comm::network
