// A port at which the ranks of a test find each other.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <atomic>

#include "athanor/comm/network/control_connection.h"
#include "athanor/comm/network/gloo/gloo.h"

namespace athanor::tests {

// Where the ranks of one world meet: rank 0 takes the descriptor over.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size), fd_(listen_on("127.0.0.1", 0)) {}
  ~Meeting() {
    if (!taken_) close(fd_);
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  // Until a rank is at the door.
  void wait_for_one() const {
    pollfd door{fd_, POLLIN, 0};
    while (poll(&door, 1, -1) < 0) continue;
  }
  GlooPlace place(int rank) {
    if (rank == 0) taken_ = true;
    return {.address = "127.0.0.1",
            .port = port_of(fd_),
            .rank = rank,
            .size = size_,
            .listen_fd = rank == 0 ? fd_ : -1};
  }

 private:
  int size_, fd_;
  std::atomic<bool> taken_ = false;
};

}  // namespace athanor::tests
