// One TCP connection of the side channel: frames of a kind, a rank and some bytes.
// Thread rule: send() by any thread, the rest by one.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

enum class FrameKind : uint32_t {
  hello = 1,  // payload: the size of the sender's world
  refused,    // payload: why
  start,      // all have joined
  exchange,   // payload: what the rank gives
  exchanged,  // payload: what all gave
  news,
  lost,     // of `rank`; payload: why
  goodbye,  // the sender will close
  all_gone  // everybody has said goodbye or is lost
};

struct Frame {
  FrameKind kind = FrameKind::hello;
  int rank = 0;
  std::string payload;
};

class SideConnection {
 public:
  explicit SideConnection(int fd);  // owns it
  ~SideConnection();
  SideConnection(const SideConnection&) = delete;
  SideConnection& operator=(const SideConnection&) = delete;

  int fd() const { return fd_; }
  void send(FrameKind kind, int rank, std::string_view payload = {});  // what cannot be sent is dropped
  // Takes what has come. False when the connection has ended; ending() says how.
  bool receive(std::vector<Frame>& frames);
  const std::string& ending() const { return ending_; }
  std::string own_address() const;

 private:
  int fd_;
  std::mutex sending_;
  std::string received_, ending_;
};

// Listens on all addresses of the family of `address`; IoError. Port 0: one that is free.
int listen_on(const std::string& address, int port);
int port_of(int listen_fd);
// -1 and why if nobody answers.
int connect_to(const std::string& address, int port, std::string& reason);

// Several strings as one, and back; an empty list if it is no such thing.
std::string pack_strings(const std::vector<std::string>& strings);
std::vector<std::string> unpack_strings(std::string_view packed);

}  // namespace athanor
