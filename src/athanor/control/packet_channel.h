// One end of a connection between two processes of a host, over which packets and file descriptors go: a Unix socket that
// keeps the bounds of packets (SOCK_SEQPACKET).
//
//   PacketChannel channel = PacketChannel::connect(path);
//   channel.send(encode(Ready{}));                          // never waits
//   polled.push_back({channel.fd(), POLLIN, 0});            // and POLLOUT if it has_unsent()
//   channel.flush();
//   while (auto packet = channel.receive()) { ... }         // none: nothing there now, or closed()
//
// What cannot be sent at once is kept and goes out by flush(), in order; Delivery::droppable packets are shed instead and
// counted. Received descriptors are close-on-exec. If the other end is gone, sending does nothing and closed() becomes
// true once everything that it had sent is received. Errors: Error for a packet that is too long, with too many
// descriptors or cut off; IoError with the system's reason. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "athanor/control/descriptor.h"

namespace athanor::control {

constexpr size_t kPacketBytes = 65536;
constexpr size_t kPacketDescriptors = 250;
constexpr size_t kMostUnsent = 256;  // packets kept for a peer that does not read; one more is an IoError

enum class Delivery { certain, droppable };
enum class Sent { now, kept, shed, lost };  // lost: the other end is gone
enum class Take { out, look };              // look: the packet stays the next one, for whoever reads then

struct Packet {
  std::string text;
  std::vector<Descriptor> descriptors;
};

class PacketChannel {
 public:
  explicit PacketChannel(Descriptor socket);  // of type SOCK_SEQPACKET, connected
  // IoError if nobody listens there; Error if the listener is another user's.
  static PacketChannel connect(const std::string& path);
  static std::pair<PacketChannel, PacketChannel> pair();

  // The descriptors stay the caller's.
  Sent send(const std::string& text, std::span<const int> descriptors = {},
            Delivery delivery = Delivery::certain);
  bool has_unsent() const { return !unsent_.empty(); }
  void flush();
  std::optional<Packet> receive(Take take = Take::out);

  int fd() const { return socket_.get(); }  // -1 once closed
  bool closed() const { return socket_.get() < 0; }
  uint64_t num_shed() const { return num_shed_; }

 private:
  Sent try_send(const std::string& text, std::span<const int> descriptors);

  Descriptor socket_;
  std::deque<Packet> unsent_;
  uint64_t num_shed_ = 0;
  bool deaf_ = false;  // the other end takes nothing more
};

// Of the process that connected to this end of a Unix socket, or listened at it.
struct Peer {
  int64_t process = 0;
  uint32_t user = 0;
};
Peer peer_of(int socket);

}  // namespace athanor::control
