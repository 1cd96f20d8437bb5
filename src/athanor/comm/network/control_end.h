// The common part of the two ends of the control channel, rank 0's hub (control_hub.cpp) and the other ranks' spoke
// (control_channel.cpp): a thread that watches the connections, and waiting for that thread with a timeout.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "athanor/comm/network/control_channel.h"
#include "athanor/comm/network/control_connection.h"

namespace athanor::comm::network {

class SideChannel::End {
 public:
  explicit End(SideChannelOptions options);
  virtual ~End();  // after stop_thread()
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
  virtual void tell(const std::string& news) = 0;

  const std::string& own_address() const { return own_address_; }

  static std::unique_ptr<End> make_hub(SideChannelOptions options);
  static std::unique_ptr<End> make_spoke(SideChannelOptions options);

 protected:
  static constexpr int64_t kGoodbyeMs = 1000;

  void start_thread();
  void stop_thread();
  // Called by the thread: the descriptors to watch, and what to do when descriptor `fd` is readable.
  virtual std::vector<int> watched() = 0;
  virtual void ready(int fd) = 0;
  // Waits until done() is true; false at the timeout.
  bool wait_for(std::unique_lock<std::mutex>& lock, int64_t timeout_ms, const std::function<bool()>& done);

  const SideChannelOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string own_address_;  // constant once all have joined

 private:
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace athanor::comm::network
