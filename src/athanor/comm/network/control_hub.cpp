// Rank 0's end of the control channel: it lets the other ranks join, and forwards news, losses and exchanges.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "athanor/base/check.h"
#include "athanor/comm/network/control_end.h"

namespace athanor::comm::network {

class SideChannel::Hub final : public End {
 public:
  explicit Hub(SideChannelOptions options) : End(std::move(options)), ranks_(static_cast<size_t>(size())) {
    listen_fd_ = options_.listen_fd >= 0 ? options_.listen_fd : listen_on(options_.address, options_.port);
    own_address_ = options_.address;  // until a joining rank's connection shows the real one
    ranks_[0].joined = true;
    start_thread();
    try {
      wait_for_all();
    } catch (const Failure& error) {
      {
        const std::lock_guard lock(mutex_);
        for (auto& [fd, connection] : connections_)
          connection->link.send(FrameKind::refused, 0, error.what());
      }
      stop_thread();
      close(listen_fd_);
      throw;
    }
  }

  ~Hub() override {
    {
      std::unique_lock lock(mutex_);
      ranks_[0].gone = true;
      send_all(FrameKind::goodbye, 0, {});
      note_gone();
      wait_for(lock, kGoodbyeMs, [&] { return all_gone_; });
    }
    stop_thread();
    close(listen_fd_);
  }

  std::vector<std::string> exchange(const std::string& mine) override {
    std::unique_lock lock(mutex_);
    const uint64_t round = rounds_;
    ranks_[0].given = mine;
    finish_exchange();
    const auto done = [&] { return rounds_ > round || first_lost_ >= 0; };
    if (!wait_for(lock, options_.timeout_ms, done))
      throw Timeout(fmt::format("control channel: {} did not send what all exchange", without_given()));
    if (rounds_ == round) throw_lost();
    return exchanged_;
  }

  void tell(const std::string& news) override {
    const std::lock_guard lock(mutex_);
    send_all(FrameKind::news, 0, news);
  }

 private:
  struct Rank {
    bool joined = false, gone = false;
    std::optional<std::string> given;
  };
  struct Connection {
    explicit Connection(int fd) : link(fd) {}
    SideConnection link;
    int rank = -1;  // -1: no hello yet
  };

  int size() const { return options_.size; }

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const auto done = [&] { return all_joined() || first_lost_ >= 0 || !refusal_.empty(); };
    int64_t waited = 0, slice = std::min(options_.late_ms, options_.timeout_ms);
    while (!wait_for(lock, slice, done)) {
      waited += slice;
      const std::string missing = without([](const Rank& rank) { return rank.joined; });
      if (waited >= options_.timeout_ms)
        throw Timeout(fmt::format("{} of {} did not join within {} s", missing, size(),
                                  static_cast<double>(waited) / 1000.0));
      if (options_.on_late)
        options_.on_late(fmt::format("rank 0 has waited {} s for {} to join",
                                     static_cast<double>(waited) / 1000.0, missing));
      slice = std::min(waited, options_.timeout_ms - waited);
    }
    if (!refusal_.empty()) throw Error(refusal_);
    if (first_lost_ >= 0) throw_lost();
    send_all(FrameKind::start, 0, {});
  }

  bool all_joined() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.joined; });
  }

  std::string without(bool (*has)(const Rank&)) const {
    std::string ranks;
    int count = 0;
    for (int r = 0; r < size(); ++r)
      if (!has(ranks_[static_cast<size_t>(r)])) ranks += (count++ > 0 ? ", " : "") + std::to_string(r);
    return (count == 1 ? "rank " : "ranks ") + ranks;
  }
  std::string without_given() const {
    return without([](const Rank& rank) { return rank.given.has_value(); });
  }

  [[noreturn]] void throw_lost() const {
    throw PeerLost(first_lost_, fmt::format("rank {} was lost: {}", first_lost_, lost_reason_));
  }

  void send_all(FrameKind kind, int rank, std::string_view payload, int but = -1) {
    for (auto& [fd, connection] : connections_)
      if (connection->rank > 0 && connection->rank != but) connection->link.send(kind, rank, payload);
  }

  void finish_exchange() {
    for (const auto& rank : ranks_)
      if (!rank.given) return;
    exchanged_.clear();
    for (auto& rank : ranks_) {
      exchanged_.push_back(std::move(*rank.given));
      rank.given.reset();
    }
    ++rounds_;
    send_all(FrameKind::exchanged, 0, pack_strings(exchanged_));
    changed_.notify_all();
  }

  void note_gone() {
    all_gone_ = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.gone; });
    if (all_gone_) send_all(FrameKind::all_gone, 0, {});
    changed_.notify_all();
  }

  std::vector<int> watched() override {
    const std::lock_guard lock(mutex_);
    std::vector<int> fds = {listen_fd_};
    for (const auto& [fd, connection] : connections_) fds.push_back(fd);
    return fds;
  }

  void ready(int fd) override {
    if (fd == listen_fd_) {
      const int accepted = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard lock(mutex_);
      if (accepted >= 0) connections_[accepted] = std::make_unique<Connection>(accepted);
      return;
    }
    std::vector<Frame> frames;
    Connection& connection = *connections_.at(fd);  // only this thread changes the map
    const bool open = connection.link.receive(frames);
    for (auto& frame : frames) take(connection, frame);
    if (open) return;
    const int rank = connection.rank;
    const std::string reason = connection.link.ending();
    {
      const std::lock_guard lock(mutex_);
      connections_.erase(fd);
      if (rank < 0 || ranks_[static_cast<size_t>(rank)].gone) return;
      ranks_[static_cast<size_t>(rank)].gone = true;
      if (first_lost_ < 0) first_lost_ = rank, lost_reason_ = reason;
      send_all(FrameKind::lost, rank, reason);
      note_gone();
    }
    if (options_.on_lost) options_.on_lost(rank, reason);
  }

  void take(Connection& connection, Frame& frame) {
    const int rank = connection.rank;
    if (frame.kind == FrameKind::hello) return take_in(connection, frame);
    if (rank < 0) return;  // not a rank of this world
    if (frame.kind == FrameKind::news && options_.on_news) options_.on_news(frame.payload);
    const std::lock_guard lock(mutex_);
    switch (frame.kind) {
      case FrameKind::news:
        send_all(FrameKind::news, rank, frame.payload, rank);
        break;
      case FrameKind::exchange:
        ranks_[static_cast<size_t>(rank)].given = std::move(frame.payload);
        finish_exchange();
        break;
      case FrameKind::goodbye:
        ranks_[static_cast<size_t>(rank)].gone = true;
        note_gone();
        break;
      default:
        break;
    }
  }

  void take_in(Connection& connection, const Frame& hello) {
    const std::lock_guard lock(mutex_);
    std::string refusal;
    bool is_earlier = false;  // than this world
    auto said = unpack_strings(hello.payload);
    said.resize(2);
    if (said[1] != std::to_string(options_.generation)) {
      is_earlier = std::atoi(said[1].c_str()) < options_.generation;
      refusal = fmt::format("rank {} is of generation {} of the world, rank 0 of generation {}", hello.rank,
                            said[1], options_.generation);
    } else if (said[0] != std::to_string(size())) {
      refusal = fmt::format(
          "rank {} says the world has {} ranks, rank 0 says {}: start every node with the same number of "
          "ranks "
          "and of nodes",
          hello.rank, said[0], size());
    } else if (hello.rank < 1 || hello.rank >= size()) {
      refusal = fmt::format("rank {} of {} wants to join", hello.rank, size());
    } else if (ranks_[static_cast<size_t>(hello.rank)].joined) {
      refusal = fmt::format("two processes say that they are rank {}", hello.rank);
    }
    if (!refusal.empty()) {
      connection.link.send(FrameKind::refused, 0, refusal);
      // A world that is complete, or later than the newcomer's, ignores the newcomer.
      if (!all_joined() && !is_earlier) refusal_ = refusal;
    } else {
      connection.rank = hello.rank;
      ranks_[static_cast<size_t>(hello.rank)].joined = true;
      const std::string address = connection.link.own_address();
      if (own_address_ == options_.address || own_address_.starts_with("127.")) own_address_ = address;
    }
    changed_.notify_all();
  }

  int listen_fd_ = -1;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by descriptor
  std::vector<Rank> ranks_;
  std::string refusal_, lost_reason_;
  int first_lost_ = -1;
  bool all_gone_ = false;
  uint64_t rounds_ = 0;
  std::vector<std::string> exchanged_;
};

std::unique_ptr<SideChannel::End> SideChannel::End::make_hub(SideChannelOptions options) {
  return std::make_unique<Hub>(std::move(options));
}

}  // namespace athanor::comm::network
