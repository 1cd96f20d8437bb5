// Where workers arrive: accepts connections at the agent's socket and waits for who they say they are.
//
//   Reception reception({.runtime_folder = xdg_runtime_dir});
//   reception.add_polled(polled);                                        // poll these
//   for (Arrival& arrival : reception.take()) { ... }                    // those who have said hello since
//
// Connections of other users, and those that close without a word, are dropped. Errors: IoError with the system's reason.
// Thread rule: one thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "athanor/control/listener.h"
#include "athanor/control/messages.h"

namespace athanor::launch {

struct Arrival {
  int64_t process;  // at the other end, as the system says
  control::PacketChannel channel;
  control::Hello hello;
  std::string error;  // "", or why what it said is no Hello
};

class Reception {
 public:
  explicit Reception(const control::ListenerOptions& options) : listener_(options) {}
  Reception(control::Descriptor socket, const std::string& path) : listener_(std::move(socket), path) {}

  const std::string& path() const { return listener_.path(); }
  const std::string& folder() const { return listener_.folder(); }
  int socket() const { return listener_.fd(); }
  void add_polled(std::vector<pollfd>& polled) const;
  std::vector<Arrival> take();

 private:
  control::Listener listener_;
  std::vector<control::PacketChannel> strangers_;  // have said nothing yet
};

}  // namespace athanor::launch
