#include "athanor/comm/network/control_connection.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "athanor/base/error.h"

namespace athanor::comm::network {

namespace {

constexpr uint32_t kFrameMagic = 0x6e617468;
constexpr uint32_t kMaxPayload = uint32_t{1} << 30;

struct FrameHead {
  uint32_t magic, kind;
  int32_t rank;
  uint32_t payload_bytes;
};

// Keepalive: the kernel answers also for a stopped process, so only a dead host times out.
void watch_the_other_host(int fd) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  const timeval patience{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

}  // namespace

SideConnection::SideConnection(int fd) : fd_(fd) {
  watch_the_other_host(fd);
}

SideConnection::~SideConnection() {
  close(fd_);
}

void SideConnection::send(FrameKind kind, int rank, std::string_view payload) {
  const FrameHead head{kFrameMagic, static_cast<uint32_t>(kind), rank, static_cast<uint32_t>(payload.size())};
  std::string bytes(static_cast<const char*>(static_cast<const void*>(&head)), sizeof(head));
  bytes += payload;
  const std::lock_guard lock(sending_);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    at += static_cast<size_t>(sent);
  }
}

bool SideConnection::receive(std::vector<Frame>& frames) {
  char buffer[65536];
  bool open = true;
  while (open) {
    const ssize_t count = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count > 0) {
      received_.append(buffer, static_cast<size_t>(count));
      continue;
    }
    open = false;
    ending_ = count == 0 || errno == ECONNRESET
                  ? "its process has ended"
                  : fmt::format("its host does not answer ({})", std::strerror(errno));
  }
  size_t at = 0;
  FrameHead head;
  while (received_.size() - at >= sizeof(head)) {
    std::memcpy(&head, received_.data() + at, sizeof(head));
    if (head.magic != kFrameMagic || head.payload_bytes > kMaxPayload) {
      ending_ = "it is no rank";
      return false;
    }
    if (received_.size() - at - sizeof(head) < head.payload_bytes) break;
    frames.push_back({static_cast<FrameKind>(head.kind), head.rank,
                      received_.substr(at + sizeof(head), head.payload_bytes)});
    at += sizeof(head) + head.payload_bytes;
  }
  received_.erase(0, at);
  return open;
}

std::string SideConnection::own_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char text[NI_MAXHOST] = "";
  if (getsockname(fd_, static_cast<sockaddr*>(static_cast<void*>(&address)), &length) == 0)
    getnameinfo(static_cast<sockaddr*>(static_cast<void*>(&address)), length, text, sizeof(text), nullptr, 0,
                NI_NUMERICHOST);
  return text;
}

int listen_on(const std::string& address, int port) {
  const bool six = address.find(':') != std::string::npos;
  const int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 any_six{};
  any_six.sin6_family = AF_INET6;
  any_six.sin6_port = htons(static_cast<uint16_t>(port));
  const auto* any = six ? static_cast<const void*>(&any_six) : static_cast<const void*>(&four);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (fd < 0 || bind(fd, static_cast<const sockaddr*>(any), six ? sizeof(any_six) : sizeof(four)) != 0 ||
      listen(fd, 1024) != 0) {
    const int code = errno;
    if (fd >= 0) close(fd);
    throw IoError(fmt::format("rank 0 cannot listen on port {}: {}", port, std::strerror(code)), code,
                  "MASTER_PORT must be free on rank 0's host");
  }
  return fd;
}

int port_of(int listen_fd) {
  sockaddr_in6 address{};  // the port is at the same offset in IPv4 and IPv6
  socklen_t length = sizeof(address);
  getsockname(listen_fd, static_cast<sockaddr*>(static_cast<void*>(&address)), &length);
  return ntohs(address.sin6_port);
}

int connect_to(const std::string& address, int port, std::string& reason) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    reason = gai_strerror(code);
    return -1;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) == 0) return fd;
    reason = std::strerror(errno);
    if (fd >= 0) close(fd);
  }
  return -1;
}

std::string pack_strings(const std::vector<std::string>& strings) {
  std::string packed;
  for (const auto& text : strings) {
    const uint64_t length = text.size();
    packed.append(static_cast<const char*>(static_cast<const void*>(&length)), sizeof(length));
    packed += text;
  }
  return packed;
}

std::vector<std::string> unpack_strings(std::string_view packed) {
  std::vector<std::string> strings;
  while (!packed.empty()) {
    uint64_t length = 0;
    if (packed.size() < sizeof(length)) return {};
    std::memcpy(&length, packed.data(), sizeof(length));
    packed.remove_prefix(sizeof(length));
    if (packed.size() < length) return {};
    strings.emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  return strings;
}

}  // namespace athanor::comm::network
