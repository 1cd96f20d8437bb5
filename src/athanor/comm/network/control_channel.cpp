#include "athanor/comm/network/control_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/comm/network/control_end.h"
#include "athanor/comm/own_thread.h"

namespace athanor::comm::network {

SideChannel::End::End(SideChannelOptions options)
    : options_(std::move(options)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

SideChannel::End::~End() {
  close(wake_fd_);
}

void SideChannel::End::start_thread() {
  thread_ = make_own_thread({}, [this] {
    while (true) {
      std::vector<pollfd> polled = {{wake_fd_, POLLIN, 0}};
      for (const int fd : watched()) polled.push_back({fd, POLLIN, 0});
      if (poll(polled.data(), polled.size(), -1) < 0) continue;
      if (polled[0].revents != 0) return;
      for (size_t i = 1; i < polled.size(); ++i)
        if (polled[i].revents != 0) ready(polled[i].fd);
    }
  });
}

void SideChannel::End::stop_thread() {
  eventfd_write(wake_fd_, 1);
  if (thread_.joinable()) thread_.join();
}

bool SideChannel::End::wait_for(std::unique_lock<std::mutex>& lock, int64_t timeout_ms,
                                const std::function<bool()>& done) {
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done);
}

// The end of a rank other than 0.
class SideChannel::Spoke final : public End {
 public:
  explicit Spoke(SideChannelOptions options) : End(std::move(options)), connection_(connect()) {
    own_address_ = connection_.own_address();
    connection_.send(FrameKind::hello, options_.rank,
                     pack_strings({std::to_string(options_.size), std::to_string(options_.generation)}));
    start_thread();
    try {
      std::unique_lock lock(mutex_);
      // Rank 0 times out first and tells which ranks are missing, so this rank waits longer.
      const bool answered =
          wait_for(lock, options_.timeout_ms + kGoodbyeMs, [&] { return started_ || closed_; });
      if (!refusal_.empty()) throw Error(refusal_);
      if (!answered)
        throw Timeout(fmt::format("rank {}: rank 0 at {} did not start", options_.rank, place()));
      if (!started_) throw_lost();
    } catch (const Failure&) {
      stop_thread();
      throw;
    }
  }

  ~Spoke() override {
    connection_.send(FrameKind::goodbye, options_.rank);
    {
      std::unique_lock lock(mutex_);
      wait_for(lock, kGoodbyeMs, [&] { return all_gone_ || closed_; });
    }
    stop_thread();
  }

  std::vector<std::string> exchange(const std::string& mine) override {
    connection_.send(FrameKind::exchange, options_.rank, mine);
    std::unique_lock lock(mutex_);
    if (!wait_for(lock, options_.timeout_ms, [&] { return exchanged_.has_value() || closed_ || lost_ >= 0; }))
      throw Timeout(fmt::format("rank {}: not all ranks sent what all exchange", options_.rank));
    if (!exchanged_) throw_lost();
    auto all = unpack_strings(*exchanged_);
    exchanged_.reset();
    check(all.size() == static_cast<size_t>(options_.size), "control channel: {} of {} replies came",
          all.size(), options_.size);
    return all;
  }

  void tell(const std::string& news) override { connection_.send(FrameKind::news, options_.rank, news); }

 private:
  std::string place() const { return fmt::format("{}:{}", options_.address, options_.port); }

  int connect() const {
    const int64_t start = now_ns();
    int64_t report_ms = options_.late_ms;
    std::string reason;
    while (true) {
      const int fd = connect_to(options_.address, options_.port, reason);
      if (fd >= 0) return fd;
      const int64_t waited_ms = (now_ns() - start) / 1'000'000;
      if (waited_ms >= options_.timeout_ms)
        throw Timeout(fmt::format("rank {}: nobody answers at {}, where rank 0 should be: {}", options_.rank,
                                  place(), reason));
      if (waited_ms >= report_ms && options_.on_late) {
        options_.on_late(fmt::format("rank {} has waited {:.1f} s for rank 0 at {}: {}", options_.rank,
                                     static_cast<double>(waited_ms) / 1000.0, place(), reason));
        report_ms *= 2;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  [[noreturn]] void throw_lost() const {
    throw PeerLost(std::max(lost_, 0), fmt::format("rank {} was lost: {}", std::max(lost_, 0), lost_reason_));
  }

  std::vector<int> watched() override {
    return closed_ ? std::vector<int>() : std::vector<int>{connection_.fd()};
  }

  void ready(int) override {
    std::vector<Frame> frames;
    const bool open = connection_.receive(frames);
    for (auto& frame : frames) take(frame);
    if (open) return;
    bool lost = false;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      lost = !hub_left_;
      if (lost_ < 0) lost_reason_ = connection_.ending();
      changed_.notify_all();
    }
    if (lost && options_.on_lost) options_.on_lost(0, connection_.ending());
  }

  void take(Frame& frame) {
    if (frame.kind == FrameKind::news && options_.on_news) options_.on_news(frame.payload);
    if (frame.kind == FrameKind::lost && options_.on_lost) options_.on_lost(frame.rank, frame.payload);
    const std::lock_guard lock(mutex_);
    switch (frame.kind) {
      case FrameKind::start:
        started_ = true;
        break;
      case FrameKind::refused:
        refusal_ = frame.payload;
        closed_ = hub_left_ = true;
        break;
      case FrameKind::exchanged:
        exchanged_ = std::move(frame.payload);
        break;
      case FrameKind::lost:
        if (lost_ < 0) lost_ = frame.rank, lost_reason_ = frame.payload;
        break;
      case FrameKind::goodbye:
        hub_left_ = true;
        break;
      case FrameKind::all_gone:
        all_gone_ = true;
        break;
      default:
        break;
    }
    changed_.notify_all();
  }

  SideConnection connection_;
  bool started_ = false, closed_ = false, hub_left_ = false, all_gone_ = false;
  int lost_ = -1;
  std::string refusal_, lost_reason_;
  std::optional<std::string> exchanged_;
};

std::unique_ptr<SideChannel::End> SideChannel::End::make_spoke(SideChannelOptions options) {
  return std::make_unique<Spoke>(std::move(options));
}

SideChannel::SideChannel(SideChannelOptions options) {
  check(0 <= options.rank && options.rank < options.size, "control channel: rank {} of {}", options.rank,
        options.size);
  end_ = options.rank == 0 ? End::make_hub(std::move(options)) : End::make_spoke(std::move(options));
}

SideChannel::~SideChannel() = default;

std::vector<std::string> SideChannel::exchange(const std::string& mine) {
  return end_->exchange(mine);
}

void SideChannel::tell(const std::string& news) {
  end_->tell(news);
}

const std::string& SideChannel::own_address() const {
  return end_->own_address();
}

}  // namespace athanor::comm::network
