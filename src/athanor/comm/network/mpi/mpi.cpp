#include "athanor/comm/network/mpi/mpi.h"

#include <dlfcn.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/comm/network/mpi/mpi_calls.h"
#include "athanor/comm/network/network_world.h"

namespace athanor::comm::network::mpi {

namespace {

constexpr int64_t kSliceNs = 50'000'000;
// How long to wait for a cancelled message, and for news to be sent.
constexpr int64_t kGiveUpNs = 200'000'000;
constexpr int kNewsTag = 0;
constexpr size_t kNewsBytes = 4096;

const MpiCalls& load_calls(const std::string& module_path) {
  // Never unloaded, which MPI's libraries do not survive. RTLD_GLOBAL, since MPI's plug-ins need its symbols.
  void* module = dlopen(module_path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr)
    throw Error(fmt::format("mpi: cannot load {}: {}", module_path, dlerror()),
                "this program was built without MPI, or Open MPI is not installed here");
  using Entry = const MpiCalls* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(module, "athanor_mpi_calls"));
  check(entry != nullptr, "mpi: {} is not this program's module", module_path);
  const MpiCalls& calls = *entry();
  check(calls.version == MpiCalls::kVersion, "mpi: {} is of version {}, expected {}", module_path,
        calls.version, MpiCalls::kVersion);
  return calls;
}

class MpiWire final : public Wire {
 public:
  explicit MpiWire(const std::string& module_path) : calls_(load_calls(module_path)) {
    const char* error = calls_.start(&rank_, &size_, &largest_tag_);
    check(error == nullptr, "mpi: cannot be initialised: {}", error == nullptr ? "" : error);
    hear_next();
  }

  ~MpiWire() override {
    poll();
    drop_last_messages();
    const std::lock_guard lock(mutex_);
    for (auto& one : telling_) calls_.forget(one.request);
    calls_.cancel(hearing_);
    calls_.forget(hearing_);
    if (!failed_) calls_.finish();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

 private:
  class MpiMessage;
  struct Telling {
    std::vector<std::byte> bytes;
    MpiCalls::Request* request = nullptr;
  };

  std::unique_ptr<Message> start_send(int to, uint64_t channel, const void* data, size_t size_bytes) override;
  std::unique_ptr<Message> start_recv(int from, uint64_t channel, void* data, size_t size_bytes) override;

  // Two channels may have the same tag, as rarely as hashes collide; the headers of calls distinguish them.
  int tag_of(uint64_t channel) const {
    return 1 + static_cast<int>(channel % static_cast<uint64_t>(largest_tag_));
  }

  void tell(uint64_t group, const GroupFailure& failure) override {
    const auto bytes = pack_news(group, failure);
    {
      const std::lock_guard lock(mutex_);
      failed_ = true;
      for (int r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        telling_.push_back({bytes, nullptr});
        calls_.send(r, kNewsTag, telling_.back().bytes.data(), bytes.size(), &telling_.back().request);
      }
    }
    // MPI makes progress only inside its calls, and this rank may make no other call.
    for (const int64_t start = now_ns(); now_ns() - start < kGiveUpNs; sched_yield()) {
      const std::lock_guard lock(mutex_);
      std::erase_if(telling_, [&](Telling& one) {
        bool done = false;
        calls_.test(one.request, &done);
        if (done) calls_.forget(one.request);
        return done;
      });
      if (telling_.empty()) return;
    }
  }

  void poll() override {
    std::optional<News> news;
    do {
      news.reset();
      {
        const std::lock_guard lock(mutex_);
        bool done = false;
        if (calls_.test(hearing_, &done) != nullptr || !done) return;
        news = unpack_news(news_.data(), news_.size());
        calls_.forget(hearing_);
        hear_next();
        failed_ = true;
      }
      if (news) heard(news->group, news->failure);
    } while (news);
  }

  void hear_next() { calls_.recv(-1, kNewsTag, news_.data(), news_.size(), &hearing_); }

  const MpiCalls& calls_;
  int rank_ = 0, size_ = 1, largest_tag_ = 1;
  std::mutex mutex_;  // serialises all calls of MPI
  std::array<std::byte, kNewsBytes> news_{};
  MpiCalls::Request* hearing_ = nullptr;
  std::vector<Telling> telling_;
  bool failed_ = false;
};

class MpiWire::MpiMessage final : public Message {
 public:
  MpiMessage(MpiWire& wire, MpiCalls::Request* request, const char* error)
      : wire_(wire), request_(request), failure_(error == nullptr ? "" : error) {}

  // Open MPI cancels receives only. A large send that is not received stays pending, and MPI may still read its memory.
  ~MpiMessage() override {
    if (!done_) {
      {
        const std::lock_guard lock(wire_.mutex_);
        wire_.calls_.cancel(request_);
      }
      for (const int64_t start = now_ns(); !test() && now_ns() - start < kGiveUpNs;) sched_yield();
    }
    const std::lock_guard lock(wire_.mutex_);
    wire_.calls_.forget(request_);
  }

  bool wait() override {
    if (!failure_.empty()) throw ConnectionLost(failure_);
    int64_t start = 0;
    for (int tries = 0; !test(); ++tries) {
      if (tries < 100) {
        sched_yield();
        continue;
      }
      const int64_t now = now_ns();
      if (start == 0) start = now;
      if (now - start > kSliceNs) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(now - start > 1'000'000 ? 200 : 20));
    }
    if (!failure_.empty()) throw ConnectionLost(failure_);
    return true;
  }

 private:
  bool test() {
    if (done_) return true;
    const std::lock_guard lock(wire_.mutex_);
    bool done = false;
    if (const char* error = wire_.calls_.test(request_, &done)) {
      failure_ = error;
      done = true;
    }
    return done_ = done;
  }

  MpiWire& wire_;
  MpiCalls::Request* request_;
  std::string failure_;
  bool done_ = false;
};

std::unique_ptr<Wire::Message> MpiWire::start_send(int to, uint64_t channel, const void* data,
                                                   size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  MpiCalls::Request* request = nullptr;
  const char* error = calls_.send(to, tag_of(channel), data, size_bytes, &request);
  return std::make_unique<MpiMessage>(*this, request, error);
}

std::unique_ptr<Wire::Message> MpiWire::start_recv(int from, uint64_t channel, void* data,
                                                   size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  MpiCalls::Request* request = nullptr;
  const char* error = calls_.recv(from, tag_of(channel), data, size_bytes, &request);
  return std::make_unique<MpiMessage>(*this, request, error);
}

}  // namespace

std::unique_ptr<World> make_mpi_world(const std::string& module_path, const GroupOptions& options) {
  return std::make_unique<WireWorld>(std::make_shared<MpiWire>(module_path), options);
}

}  // namespace athanor::comm::network::mpi
