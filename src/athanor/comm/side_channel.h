// What the processes of a world tell each other beside their data: who is there, where the others are reached, and
// who has died. A star of TCP connections around rank 0.
//
//   SideChannel channel({.address = "10.0.0.1", .port = 29500, .rank = r, .size = n, ...});   // when all have joined
//   const std::vector<std::string> all = channel.exchange(mine);      // by all ranks
//   channel.tell(news);                                               // -> on_news on all other ranks
//
// A rank whose connection ends without a goodbye is dead: the kernel closes it when a process ends, however it ends,
// and gives up on a host that has not answered for 5 s. The others hear of it through on_lost, as a rule within
// milliseconds; that rank 0 is lost they notice by themselves. Rank 0 listens on all its addresses.
// Errors: Timeout naming the ranks that have not joined, or the address nobody answers at; Error where two ranks do
// not belong to one world (another size, a rank taken twice); IoError where the port is in use.
// Thread rule: exchange() by one thread at a time; tell() by any; on_news and on_lost are called by a thread of the
// channel, one at a time, perhaps before the constructor returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace athanor {

struct SideChannelOptions {
  std::string address;  // of rank 0; a name or numbers
  int port = 0;
  int listen_fd = -1;  // rank 0 may listen already, and lets go of the descriptor; -1: it does not
  int rank = 0, size = 1;
  int64_t timeout_ms = 600'000;
  int64_t late_ms = 2'000;
  std::function<void(const std::string& report)> on_late;  // who has not joined yet
  std::function<void(const std::string& news)> on_news;
  std::function<void(int rank, const std::string& reason)> on_lost;
};

class SideChannel {
 public:
  explicit SideChannel(SideChannelOptions options);
  ~SideChannel();  // says goodbye, and waits a second at most for the others' goodbyes
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  // What every rank gave, in rank order.
  std::vector<std::string> exchange(const std::string& mine);
  void tell(const std::string& news);
  // The address of this host on the way to the others, in numbers.
  const std::string& own_address() const;

 private:
  class Hub;
  class Spoke;
  class End;
  std::unique_ptr<End> end_;
};

}  // namespace athanor
