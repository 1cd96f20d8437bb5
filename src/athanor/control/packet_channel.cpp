#include "athanor/control/packet_channel.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "athanor/base/check.h"

namespace athanor::control {
namespace {

[[noreturn]] void fail_io(const std::string& what, int code) {
  throw IoError(fmt::format("control channel: {}: {}", what, std::strerror(code)), code);
}

// Room for the descriptors of a packet beside it, aligned as the system wants it.
struct Beside {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kPacketDescriptors)> bytes{};
};

std::vector<Descriptor> descriptors_of(msghdr& header) {
  std::vector<Descriptor> got;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      got.emplace_back(fd);
    }
  }
  return got;
}

}  // namespace

Peer peer_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) fail_io("whose is it", errno);
  return {peer.pid, peer.uid};
}

PacketChannel::PacketChannel(Descriptor socket) : socket_(std::move(socket)) {
  int type = 0;
  socklen_t length = sizeof(type);
  if (getsockopt(fd(), SOL_SOCKET, SO_TYPE, &type, &length) != 0) fail_io("no socket", errno);
  check(type == SOCK_SEQPACKET, "control channel: a socket of type {}, expected {}", type,
        int{SOCK_SEQPACKET});
}

PacketChannel PacketChannel::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  check(!path.empty() && path.size() < sizeof(address.sun_path),
        "control channel: a path of {} bytes, expected 1 to {}", path.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) fail_io("socket", errno);
  // An address of any family goes to the system as this.
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    if (errno != EINTR) fail_io(fmt::format("cannot connect to '{}'", path), errno);
  check(peer_of(socket.get()).user == geteuid(), "control channel: '{}' is of user {}, expected {}", path,
        peer_of(socket.get()).user, geteuid());
  return PacketChannel(std::move(socket));
}

std::pair<PacketChannel, PacketChannel> PacketChannel::pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail_io("socketpair", errno);
  Descriptor first(ends[0]), second(ends[1]);
  return {PacketChannel(std::move(first)), PacketChannel(std::move(second))};
}

// kept: not now.
Sent PacketChannel::try_send(const std::string& text, std::span<const int> descriptors) {
  iovec piece{const_cast<char*>(text.data()), text.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  Beside beside;
  if (!descriptors.empty()) {
    header.msg_control = beside.bytes.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(part), descriptors.data(), sizeof(int) * descriptors.size());
  }
  while (sendmsg(fd(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    // ECONNRESET is told once, of a peer that closed without reading all: the next call says EPIPE.
    if (errno == EINTR || errno == ECONNRESET) continue;
    if (errno == EAGAIN || errno == ENOBUFS) return Sent::kept;
    if (errno == EPIPE || errno == ENOTCONN) {
      deaf_ = true;
      unsent_.clear();
      return Sent::lost;
    }
    fail_io("cannot send", errno);
  }
  return Sent::now;
}

Sent PacketChannel::send(const std::string& text, std::span<const int> descriptors, Delivery delivery) {
  check(!text.empty() && text.size() <= kPacketBytes,
        "control channel: a packet of {} bytes, expected 1 to {}", text.size(), kPacketBytes);
  check(descriptors.size() <= kPacketDescriptors, "control channel: {} descriptors, expected at most {}",
        descriptors.size(), kPacketDescriptors);
  if (closed() || deaf_) return Sent::lost;
  Sent sent = has_unsent() ? Sent::kept : try_send(text, descriptors);  // it must not overtake
  if (sent != Sent::kept) return sent;
  if (delivery == Delivery::droppable) {
    ++num_shed_;
    return Sent::shed;
  }
  if (unsent_.size() >= kMostUnsent) fail_io(fmt::format("{} packets wait", unsent_.size()), ENOBUFS);
  Packet packet{text, {}};
  for (const int descriptor : descriptors) {
    packet.descriptors.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (packet.descriptors.back().get() < 0) fail_io("cannot keep a descriptor", errno);
  }
  unsent_.push_back(std::move(packet));
  return Sent::kept;
}

void PacketChannel::flush() {
  while (has_unsent() && !closed()) {
    std::vector<int> descriptors;
    for (const Descriptor& descriptor : unsent_.front().descriptors) descriptors.push_back(descriptor.get());
    if (try_send(unsent_.front().text, descriptors) != Sent::now) return;
    unsent_.pop_front();
  }
}

std::optional<Packet> PacketChannel::receive(Take take) {
  if (closed()) return std::nullopt;
  Packet packet;
  const auto room =
      std::make_unique_for_overwrite<char[]>(kPacketBytes);  // most packets are small: clears nothing
  iovec piece{room.get(), kPacketBytes};
  Beside beside;
  msghdr header{};
  ssize_t length = -1;
  while (length < 0) {
    header = {};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = beside.bytes.data();
    header.msg_controllen = beside.bytes.size();
    length = recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | (take == Take::look ? MSG_PEEK : 0));
    if (length >= 0) break;
    if (errno == EAGAIN) return std::nullopt;
    // ECONNRESET is told once, of a peer that closed without reading all; what it had sent comes after.
    if (errno != EINTR && errno != ECONNRESET) fail_io("cannot receive", errno);
  }
  packet.descriptors = descriptors_of(header);
  if (length == 0) {
    unsent_.clear();
    socket_.reset();
    return std::nullopt;
  }
  check((header.msg_flags & MSG_TRUNC) == 0, "control channel: a packet of more than {} bytes", kPacketBytes);
  const bool lost = (header.msg_flags & MSG_CTRUNC) != 0;
  check(!lost || packet.descriptors.size() < kPacketDescriptors,
        "control channel: descriptors were lost: more than {}", kPacketDescriptors);
  if (lost) fail_io("descriptors were lost", EMFILE);  // this process may open no more
  packet.text.assign(room.get(), static_cast<size_t>(length));
  return packet;
}

}  // namespace athanor::control
