// One TCP connection of the control channel. It carries frames: a kind, a rank and a payload.
//
//   SideConnection connection(fd);
//   connection.send(FrameKind::news, rank, payload);
//   std::vector<Frame> frames;
//   if (!connection.receive(frames)) ... connection.ending() ...     // when poll() says that fd is readable
//
// Thread rule: send() by any thread, the rest by one.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::comm::network {

enum class FrameKind : uint32_t {
  hello = 1,  // payload: the size and the generation of the sender's world
  refused,    // payload: why
  start,      // all have joined
  exchange,   // payload: what the rank gives
  exchanged,  // payload: what all ranks gave
  news,
  lost,     // `rank` is lost; payload: why
  goodbye,  // the sender will close
  all_gone  // every rank has said goodbye or is lost
};

struct Frame {
  FrameKind kind = FrameKind::hello;
  int rank = 0;
  std::string payload;
};

class SideConnection {
 public:
  explicit SideConnection(int fd);  // takes ownership
  ~SideConnection();
  SideConnection(const SideConnection&) = delete;
  SideConnection& operator=(const SideConnection&) = delete;

  int fd() const { return fd_; }
  void send(FrameKind kind, int rank, std::string_view payload = {});  // drops the frame if it cannot be sent
  // Appends the frames that have arrived. False when the connection has ended; ending() says how.
  bool receive(std::vector<Frame>& frames);
  const std::string& ending() const { return ending_; }
  std::string own_address() const;

 private:
  int fd_;
  std::mutex sending_;
  std::string received_, ending_;
};

// Listens on all local addresses of the family of `address`; IoError. Port 0: any free port.
int listen_on(const std::string& address, int port);
int port_of(int listen_fd);
// Returns a descriptor, or -1 and a reason if nobody answers.
int connect_to(const std::string& address, int port, std::string& reason);

// Packs several strings into one. unpack_strings returns an empty list for text that pack_strings has not made.
std::string pack_strings(const std::vector<std::string>& strings);
std::vector<std::string> unpack_strings(std::string_view packed);

}  // namespace athanor::comm::network
