// Where the workers of a launch connect to their agent: a Unix socket with a name in a folder that only this user enters.
//
//   Listener listener({.runtime_folder = xdg_runtime_dir});
//   environment.push_back("ATHANOR_CONTROL=" + listener.path());
//   polled.push_back({listener.fd(), POLLIN, 0});
//   while (auto channel = listener.accept()) { ... }       // of this user's processes only; others are counted
//
// The folder, athanor-XXXXXX with mode 0700, lies in `runtime_folder` if that is this user's and its name is not too long
// for a socket, else in /tmp. The destructor removes it, with all that others have put there. A launcher that is killed cannot: the next Listener removes
// folders of this user in which nobody listens any more. Errors: IoError with the system's reason. Thread rule: one
// thread.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>

#include "athanor/control/packet_channel.h"

namespace athanor::control {

struct ListenerOptions {
  std::string runtime_folder{};  // $XDG_RUNTIME_DIR; "": none
  uid_t user = geteuid();        // who may connect
};

class Listener {
 public:
  explicit Listener(const ListenerOptions& options);
  // Goes on with the socket of a process that is gone, which is at `path`.
  Listener(Descriptor socket, const std::string& path, uid_t user = geteuid());
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  int fd() const { return socket_.get(); }
  std::optional<PacketChannel> accept();  // none: nobody waits
  uint64_t num_refused() const { return num_refused_; }

 private:
  uid_t user_;
  std::string folder_, path_;
  Descriptor socket_;
  uint64_t num_refused_ = 0;
};

}  // namespace athanor::control
