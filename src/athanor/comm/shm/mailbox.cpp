#include "athanor/comm/shm/mailbox.h"

#include <sched.h>

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/comm/own_thread.h"

namespace athanor::comm::shm {

namespace {

constexpr size_t kDirectMailBytes = size_t{32} << 10;  // below this the ring is as fast

}  // namespace

struct SlotMail::Watch {
  int64_t start_ns = 0;
  int64_t report_ns = 0;  // when the next report of lateness is due, after the start
  size_t moved = 0;
};

class SlotMail::Handle final : public Work::Impl {
 public:
  Handle(SlotMail* mail, std::shared_ptr<Message> message) : mail_(mail), message_(std::move(message)) {}
  ~Handle() override {
    try {
      wait();
    } catch (const Failure&) {  // a destructor cannot throw; the group's next call throws it again
    }
  }
  // After finish() every message is done, so the mailbox is not used any more.
  void wait() override {
    if (!done()) mail_->wait_and_tell(*message_);
    if (message_->error) message_->error->raise();
  }
  bool done() const override { return message_->done.load(std::memory_order_acquire); }

 private:
  SlotMail* mail_;
  std::shared_ptr<Message> message_;
};

SlotMail::SlotMail(const SlotLink& link, const SharedRegions& regions, TrafficCounter& traffic)
    : link_(link),
      arena_(link.arena()),
      regions_(regions),
      traffic_(traffic),
      peers_(static_cast<size_t>(link.size())) {}

SlotMail::~SlotMail() {
  finish();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void SlotMail::finish() {
  while (true) {
    std::shared_ptr<Message> message;
    {
      const std::lock_guard lock(mutex_);
      for (auto& peer : peers_)
        for (auto* queue : {&peer.sending, &peer.untaken, &peer.receiving})
          if (!queue->empty()) message = queue->front();
    }
    if (!message) return;
    wait(*message);
  }
}

Work SlotMail::start(const Call& call, std::byte* data) {
  link_.throw_if_broken();
  auto message = std::make_shared<Message>();
  message->call = call;
  message->data = data;
  message->bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  if (message->is_send() && message->bytes >= kDirectMailBytes)
    message->call.place = regions_.place_of(data, message->bytes);
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(call.root)];
  message->number = message->is_send() ? peer.num_sent++ : peer.num_received++;
  (message->is_send() ? peer.sending : peer.receiving).push_back(message);
  clock_.note(call.name, link_.options().now_ns());
  progress();
  if (pending()) {
    if (!thread_.joinable()) thread_ = make_own_thread(link_.options(), [this] { run_thread(); });
    if (waiters_ == 0) work_.notify_one();
  }
  return Work(std::make_shared<Handle>(this, std::move(message)));
}

void SlotMail::wait_and_tell(Message& message) {
  const auto& on_waited = link_.options().on_waited;
  if (!on_waited) return wait(message);
  const int64_t start_ns = link_.options().now_ns();
  wait(message);
  on_waited(link_.options().now_ns() - start_ns);
}

void SlotMail::wait(Message& message) {
  std::unique_lock lock(mutex_);
  ++waiters_;
  Watch watch;
  for (int tries = 0; !message.done.load(std::memory_order_relaxed);) {
    const uint32_t seen = arena_.control(link_.rank()).bell.load();
    if (progress()) {
      tries = 0;
      continue;
    }
    if (message.done.load(std::memory_order_relaxed)) break;
    if (++tries > kYields) look_around(message, watch, lock);
    lock.unlock();
    if (tries <= kYields) {
      sched_yield();
    } else {
      arena_.sleep_while_bell(link_.rank(), seen, kSliceMs);
    }
    lock.lock();
  }
  if (watch.start_ns != 0) arena_.control(link_.rank()).waiting[0].store(0, std::memory_order_relaxed);
  if (--waiters_ == 0 && pending()) work_.notify_one();
}

void SlotMail::run_thread() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || (waiters_ == 0 && pending()); });
    if (stopping_) return;
    const uint32_t seen = arena_.control(link_.rank()).bell.load();
    if (progress()) continue;
    lock.unlock();
    arena_.sleep_while_bell(link_.rank(), seen, kSliceMs);
    lock.lock();
  }
}

bool SlotMail::pending() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return !peer.sending.empty() || !peer.untaken.empty() || !peer.receiving.empty();
  });
}

std::string SlotMail::place(const Message& message) const {
  return fmt::format("{}, message {} {}", link_.options().text(), message.number, message.call.text());
}

void SlotMail::refuse(const Message& message, const Call& sent) {
  const std::string from = link_.rank_text(message.call.root), to = link_.rank_text(link_.rank());
  arena_.fail(
      {GroupFailure::Kind::mismatch, link_.rank(),
       fmt::format("{}: message {} from {} to {} differs: {} called {}; {} called {}", link_.options().text(),
                   message.number, from, to, from, sent.text(), to, message.call.text())});
  progress();
}

void SlotMail::look_around(Message& message, Watch& watch, std::unique_lock<std::mutex>& lock) {
  const int other = message.call.root;
  const int64_t now = link_.options().now_ns();
  const auto fail = [&](GroupFailure::Kind kind, const std::string& text) {
    arena_.fail({kind, other, text});
    progress();
  };
  const std::string loss = link_.loss_of(other);
  if (!loss.empty()) {
    while (progress()) continue;  // the peer may have completed the message before it died or left
    if (message.done.load(std::memory_order_relaxed)) return;
    link_.lose(other, loss, place(message));
    progress();
    return;
  }
  if (watch.start_ns == 0 || watch.moved != message.moved) {
    watch = {now, clock_.late_after_ns(link_.options().late_ms), message.moved};
    store_words(pack_call(message.number, message.call), arena_.control(link_.rank()).waiting);
    return;
  }
  const int64_t waited = now - watch.start_ns;
  const double seconds = static_cast<double>(waited) * 1e-9;
  const std::string own = link_.rank_text(link_.rank());
  const auto missing = [&] {
    return fmt::format("{}, which {}", link_.rank_text(other), link_.last_seen(other));
  };
  if (waited >= link_.options().timeout_ms * 1'000'000) {
    fail(GroupFailure::Kind::timeout, fmt::format("{}: timed out after {:.1f} s on {}, waiting for {}",
                                                  place(message), seconds, own, missing()));
  } else if (waited >= watch.report_ns) {
    watch.report_ns *= 2;
    if (!link_.options().on_late) return;
    const std::string report =
        fmt::format("{}: {} has waited {:.1f} s for {}", place(message), own, seconds, missing());
    lock.unlock();
    link_.options().on_late(report);
    lock.lock();
  }
}

}  // namespace athanor::comm::shm
