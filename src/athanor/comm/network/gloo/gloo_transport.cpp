#include "athanor/comm/network/gloo/gloo_transport.h"

#include <gloo/transport/address.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/comm/network/control_channel.h"
#include "athanor/comm/network/control_connection.h"
#include "athanor/comm/own_thread.h"

namespace athanor::comm::network::gloo {

namespace {

constexpr std::chrono::milliseconds kSlice(50);
// Gloo's timeout closes all pairs of the world, so it never happens: the group's timeout is sooner.
constexpr std::chrono::hours kForever(1000);

// Blocks SIGPIPE: Gloo writes to sockets whose other end may be closed, and the signal would end the process.
class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    sigemptyset(&pipes_);
    sigaddset(&pipes_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipes_, &before_);
  }
  ~NoBrokenPipes() {
    const timespec now{0, 0};
    while (!was_pending_ && sigtimedwait(&pipes_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;
  NoBrokenPipes& operator=(const NoBrokenPipes&) = delete;

 private:
  sigset_t pipes_{}, before_{};
  bool was_pending_ = false;
};

class GlooWire final : public Wire {
 public:
  GlooWire(const GlooPlace& place, const GroupOptions& options)
      : rank_(place.rank),
        size_(place.size),
        side_(std::make_unique<SideChannel>(SideChannelOptions{
            .address = place.address,
            .port = place.port,
            .listen_fd = place.listen_fd,
            .rank = place.rank,
            .size = place.size,
            .generation = options.generation,
            .timeout_ms = options.timeout_ms,
            .late_ms = options.late_ms,
            .on_late = options.on_late,
            .on_news =
                [this](const std::string& bytes) {
                  if (const auto news = unpack_news(bytes.data(), bytes.size()))
                    heard(news->group, news->failure);
                },
            .on_lost = [this](int rank, const std::string& reason) { heard_lost(rank, reason); }})) {
    connect();
    slicer_ = make_own_thread({}, [this] { cut_waits(); });
  }

  ~GlooWire() override {
    {
      const std::lock_guard lock(waits_mutex_);
      stopping_ = true;
    }
    somebody_waits_.notify_one();
    slicer_.join();
    side_.reset();  // once the other ranks have said goodbye, they have received all messages
    drop_last_messages();
    // Takes each pair's lock, under which Gloo's thread completes messages: none is completed once its buffer goes.
    for (int r = 0; context_ && r < size_; ++r)
      if (r != rank_) context_->getPair(r)->close();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

 private:
  class GlooMessage;

  std::unique_ptr<Message> start_send(int to, uint64_t channel, const void* data, size_t size_bytes) override;
  std::unique_ptr<Message> start_recv(int from, uint64_t channel, void* data, size_t size_bytes) override;

  void tell(uint64_t group, const GroupFailure& failure) override {
    const auto bytes = pack_news(group, failure);
    side_->tell({static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()});
  }

  void connect() {
    const std::string& address = side_->own_address();
    const auto hosts = side_->exchange(address);
    const auto loops = [](const std::string& host) { return host.starts_with("127.") || host == "::1"; };
    for (int r = 0; r < size_; ++r)
      if (loops(hosts[static_cast<size_t>(r)]) != loops(address))
        throw ConfigError(
            fmt::format("gloo: rank {} is reached at {}, rank {} at {}, expected addresses of one network",
                        rank_, address, r, hosts[static_cast<size_t>(r)]),
            "the master's name means its own loopback there; give its address in numbers");
    try {
      make_device(address);
      context_ = device_->createContext(rank_, size_);
      context_->setTimeout(kForever);
      std::vector<std::string> mine;
      for (int r = 0; r < size_; ++r) {
        mine.emplace_back();
        if (r == rank_) continue;
        auto& pair = context_->createPair(r);
        pair->setLocalRank(0);  // Gloo leaves it uninitialized
        const auto bytes = pair->address().bytes();
        mine.back().assign(bytes.begin(), bytes.end());
      }
      const auto all = side_->exchange(pack_strings(mine));
      for (int r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        const auto theirs = unpack_strings(all[static_cast<size_t>(r)]);
        check(theirs.size() == static_cast<size_t>(size_), "gloo: rank {} sent no addresses", r);
        const std::string& bytes = theirs[static_cast<size_t>(rank_)];
        context_->getPair(r)->connect({bytes.begin(), bytes.end()});
      }
      // A barrier: no message may arrive before its pair is ready.
      side_->exchange("");
    } catch (const Failure&) {
      throw;
    } catch (const std::exception& error) {
      throw Recoverable(fmt::format("gloo: rank {} cannot connect to the others: {}", rank_, error.what()));
    }
  }

  // Gloo starts a thread, which inherits the blocked signals of a thread of ours.
  void make_device(const std::string& address) {
    std::exception_ptr error;
    make_own_thread({}, [&] {
      try {
        device_ = ::gloo::transport::tcp::CreateDevice(::gloo::transport::tcp::attr(address.c_str()));
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error) std::rethrow_exception(error);
  }

  // The loop of the slicer thread: aborts all waits every 50 ms. An aborted message can be waited for again.
  void cut_waits();
  void give_up(std::unique_ptr<::gloo::transport::UnboundBuffer> buffer, int peer, bool sends);

  // A message that was destroyed before it was done: Gloo may still move its bytes.
  struct GivenUp {
    std::unique_ptr<std::byte[]> bytes;
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;
  };

  const int rank_, size_;
  std::unique_ptr<SideChannel> side_;
  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<::gloo::transport::Context> context_;
  std::mutex given_up_mutex_;
  std::vector<GivenUp> given_up_;
  std::mutex waits_mutex_;
  std::condition_variable somebody_waits_;
  std::set<GlooMessage*> waits_;
  bool stopping_ = false;
  std::thread slicer_;
};

class GlooWire::GlooMessage final : public Message {
 public:
  GlooMessage(GlooWire& wire, bool sends, int peer, uint64_t channel, void* data, size_t size_bytes)
      : wire_(wire), peer_(peer), sends_(sends) {
    const NoBrokenPipes guard;
    try {
      buffer_ = wire.context_->createUnboundBuffer(data, size_bytes);
      if (sends) {
        buffer_->send(peer, channel, 0, size_bytes);
      } else {
        buffer_->recv(peer, channel, 0, size_bytes);
      }
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  }
  ~GlooMessage() override {
    if (!done_ && failure_.empty()) wire_.give_up(std::move(buffer_), peer_, sends_);
  }
  GlooMessage(const GlooMessage&) = delete;
  GlooMessage& operator=(const GlooMessage&) = delete;

  bool wait() override {
    if (done_) return true;
    if (!failure_.empty()) throw ConnectionLost(failure_);
    const Registration registration(*this);
    try {
      done_ = sends_ ? buffer_->waitSend(kForever) : buffer_->waitRecv(kForever);
    } catch (const std::exception& error) {
      failure_ = error.what();
      throw ConnectionLost(failure_);
    }
    return done_;
  }

  void cut() {
    if (sends_) {
      buffer_->abortWaitSend();
    } else {
      buffer_->abortWaitRecv();
    }
  }

 private:
  // While it exists, the slicer thread aborts the wait of its message.
  class Registration {
   public:
    explicit Registration(GlooMessage& message) : message_(message) {
      const std::lock_guard lock(message.wire_.waits_mutex_);
      message.wire_.waits_.insert(&message);
      if (message.wire_.waits_.size() == 1) message.wire_.somebody_waits_.notify_one();
    }
    ~Registration() {
      const std::lock_guard lock(message_.wire_.waits_mutex_);
      message_.wire_.waits_.erase(&message_);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    GlooMessage& message_;
  };

  GlooWire& wire_;
  const int peer_;
  const bool sends_;
  std::unique_ptr<::gloo::transport::UnboundBuffer> buffer_;
  std::string failure_;
  bool done_ = false;
};

void GlooWire::cut_waits() {
  std::unique_lock lock(waits_mutex_);
  while (!stopping_) {
    somebody_waits_.wait(lock, [&] { return stopping_ || !waits_.empty(); });
    somebody_waits_.wait_for(lock, kSlice, [&] { return stopping_; });
    for (GlooMessage* message : waits_) message->cut();
  }
}

// A Gloo pair blocks for ever at a message whose buffer is gone, and the other side may already expect this message. So
// the buffer stays until the end of the world, with memory of its own instead of the caller's: a copy of the data to
// send, or room for received bytes that nobody reads.
void GlooWire::give_up(std::unique_ptr<::gloo::transport::UnboundBuffer> buffer, int peer, bool sends) {
  GivenUp one{std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[buffer->size]), std::move(buffer)};
  if (!one.bytes) return;  // out of memory: at least the caller's memory is not used any more
  if (sends) std::memcpy(one.bytes.get(), one.buffer->ptr, one.buffer->size);
  const std::lock_guard lock(given_up_mutex_);
  // For every part that it moves, the pair reads the address under its own lock. Taking and releasing that lock waits
  // for the part under way. Once before the change: so that the pair sees the copied bytes with the new address. Once
  // after it: so that the pair does not use the old address any more. With this order writing the const member is safe.
  const auto pass_lock = [&] { context_->getPair(peer)->createRecvBuffer(0, nullptr, 0).reset(); };
  pass_lock();
  std::atomic_ref(const_cast<void*&>(one.buffer->ptr)).store(one.bytes.get());
  pass_lock();
  given_up_.push_back(std::move(one));
}

std::unique_ptr<Wire::Message> GlooWire::start_send(int to, uint64_t channel, const void* data,
                                                    size_t size_bytes) {
  // Gloo's buffers serve both directions, so they take no const pointer; the data of a send are only read.
  return std::make_unique<GlooMessage>(*this, true, to, channel, const_cast<void*>(data), size_bytes);
}

std::unique_ptr<Wire::Message> GlooWire::start_recv(int from, uint64_t channel, void* data,
                                                    size_t size_bytes) {
  return std::make_unique<GlooMessage>(*this, false, from, channel, data, size_bytes);
}

}  // namespace

std::shared_ptr<Wire> open_gloo_wire(const GlooPlace& place, const GroupOptions& options) {
  return std::make_shared<GlooWire>(place, options);
}

}  // namespace athanor::comm::network::gloo
