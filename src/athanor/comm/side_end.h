// What rank 0's and the other ranks' ends of the side channel (side_hub.cpp, side_channel.cpp) have in common: a
// thread that waits for the connections, and waiting for that thread with a patience.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "athanor/comm/side_channel.h"
#include "athanor/comm/side_connection.h"

namespace athanor {

class SideChannel::End {
 public:
  explicit End(SideChannelOptions options);
  virtual ~End();  // the thread has been stopped by then
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
  virtual void tell(const std::string& news) = 0;

  const std::string& own_address() const { return own_address_; }

  static std::unique_ptr<End> make_hub(SideChannelOptions options);
  static std::unique_ptr<End> make_spoke(SideChannelOptions options);

 protected:
  static constexpr int64_t kGoodbyeMs = 1000;

  void start_thread();
  void stop_thread();
  // In the thread: what is waited for, and what to do when descriptor `fd` of these is ready.
  virtual std::vector<int> watched() = 0;
  virtual void ready(int fd) = 0;
  // Waits for the thread's work; false when the time is over.
  bool wait_for(std::unique_lock<std::mutex>& lock, int64_t timeout_ms, const std::function<bool()>& done);

  const SideChannelOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string own_address_;  // constant once all have joined

 private:
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace athanor
