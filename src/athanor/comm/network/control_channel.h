// The control channel of a world over a network: who has joined, at which address, who has died, which groups have
// failed. It is a star of TCP connections around rank 0, apart from the data.
//
//   SideChannel channel({.address = "10.0.0.1", .port = 29500, .rank = r, .size = n, ...});   // when all have joined
//   const std::vector<std::string> all = channel.exchange(mine);      // by all ranks
//   channel.tell(news);                                               // -> on_news on all other ranks
//
// A rank whose connection ends without a goodbye is dead: the kernel closes the connection when a process ends in any
// way, and gives up a host that has not answered for 5 s. Rank 0 then calls on_lost on all other ranks, usually within
// milliseconds; the loss of rank 0 every rank detects by itself. Rank 0 listens on all its addresses.
// Errors: Timeout naming the ranks that have not joined, or the address where nobody answers; Error if two ranks do
// not belong to one world (another size or generation, a rank taken twice); IoError if the port is in use. A rank of an
// earlier generation is refused, and the others wait for the one that has its place now.
// Thread rule: exchange() by one thread at a time; tell() by any; on_news and on_lost are called by a thread of the
// channel, one at a time, perhaps before the constructor returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::comm::network {

struct SideChannelOptions {
  std::string address;  // of rank 0: a host name or an IP address
  int port = 0;
  int listen_fd = -1;  // rank 0: a descriptor that listens already, which the channel then owns; -1: none
  int rank = 0, size = 1;
  int generation = 0;  // of the world
  int64_t timeout_ms = 600'000;
  int64_t late_ms = 2'000;
  std::function<void(const std::string& report)> on_late;  // says which ranks have not joined yet
  std::function<void(const std::string& news)> on_news;
  std::function<void(int rank, const std::string& reason)> on_lost;
};

class SideChannel {
 public:
  explicit SideChannel(SideChannelOptions options);
  ~SideChannel();  // says goodbye, then waits at most a second for the goodbyes of the other ranks
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  // An all-gather of strings: what every rank gave, in rank order.
  std::vector<std::string> exchange(const std::string& mine);
  void tell(const std::string& news);
  // This host's IP address in the network of the other ranks.
  const std::string& own_address() const;

 private:
  class Hub;
  class Spoke;
  class End;
  std::unique_ptr<End> end_;
};

}  // namespace athanor::comm::network
