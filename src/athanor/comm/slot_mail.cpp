#include "athanor/comm/slot_mail.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/comm/own_thread.h"

namespace athanor {

namespace {

constexpr int64_t kSliceMs = 25;
constexpr int kYields = 100;
constexpr size_t kHeaderBytes = sizeof(CallWords);
constexpr size_t kDirectBytes = size_t{32} << 10;  // below this a ring is as good
constexpr size_t kPortionBytes = size_t{1} << 20;  // copied at a time, with the mutex held

}  // namespace

struct SlotMail::Message {
  Call call;
  std::byte* data = nullptr;
  uint64_t number = 0;  // among those of this pair in this direction
  size_t bytes = 0, moved = 0;
  bool has_header = false;            // sent, or received and found right
  const std::byte* direct = nullptr;  // where the sender's data lies
  std::atomic<bool> done = false;
  std::optional<GroupFailure> error;  // written before done; thrown anew by each who waits
  bool is_send() const { return call.collective == Collective::send; }
};

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
    } catch (const Failure&) {  // nobody is left to hear of it; the group's next call says it again
    }
  }
  // finish() leaves nothing undone, so after it the mail is not touched.
  void wait() override {
    if (!done()) mail_->wait(*message_);
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
  if (message->is_send() && message->bytes >= kDirectBytes)
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

bool SlotMail::progress() {
  if (const auto failure = link_.failure()) {
    fail_all(*failure);
    return false;
  }
  bool moved = false;
  for (int rank = 0; rank < link_.size(); ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    moved |= !peer.sending.empty() && push(rank, peer);
    moved |= !peer.receiving.empty() && pull(rank, peer);
    moved |= !peer.untaken.empty() && collect_taken(rank, peer);
  }
  return moved;
}

// Copies between a buffer and the place in a ring that the stream has come to; `copy` gets offset and length.
template <typename Copy>
static void copy_ring(size_t ring_bytes, uint64_t stream, size_t bytes, const Copy& copy) {
  const size_t at = stream % ring_bytes, first = std::min(bytes, ring_bytes - at);
  copy(at, size_t{0}, first);
  if (bytes > first) copy(size_t{0}, first, bytes - first);
}

bool SlotMail::push(int rank, Peer& peer) {
  Message& message = *peer.sending.front();
  ChannelControl& channel = arena_.channel(link_.rank(), rank);
  std::byte* ring = arena_.ring(link_.rank(), rank);
  const size_t ring_bytes = arena_.ring_bytes();
  const uint64_t start = channel.written.load(std::memory_order_relaxed);
  uint64_t written = start;
  size_t room = ring_bytes - static_cast<size_t>(written - channel.read.load(std::memory_order_acquire));
  const auto put = [&](const void* from, size_t bytes) {
    copy_ring(ring_bytes, written, bytes, [&](size_t at, size_t offset, size_t length) {
      std::memcpy(ring + at, static_cast<const std::byte*>(from) + offset, length);
    });
    written += bytes;
    room -= bytes;
  };
  if (!message.has_header && room >= kHeaderBytes) {
    const CallWords words = pack_call(message.number, message.call);
    put(words.data(), kHeaderBytes);
    message.has_header = true;
    if (message.call.place != 0) message.moved = message.bytes;
  }
  if (message.has_header && message.moved < message.bytes && room > 0) {
    const size_t portion = std::min(room, message.bytes - message.moved);
    put(message.data + message.moved, portion);
    message.moved += portion;
  }
  if (written == start) return false;
  channel.written.store(written);
  arena_.ring_bell(rank);
  if (message.moved == message.bytes) {
    peer.untaken.push_back(peer.sending.front());
    peer.sending.pop_front();
  }
  return true;
}

bool SlotMail::pull(int rank, Peer& peer) {
  Message& message = *peer.receiving.front();
  ChannelControl& channel = arena_.channel(rank, link_.rank());
  const std::byte* ring = arena_.ring(rank, link_.rank());
  const uint64_t start = channel.read.load(std::memory_order_relaxed);
  uint64_t read = start;
  auto available = static_cast<size_t>(channel.written.load(std::memory_order_acquire) - read);
  const auto get = [&](void* to, size_t bytes) {
    copy_ring(arena_.ring_bytes(), read, bytes, [&](size_t at, size_t offset, size_t length) {
      std::memcpy(static_cast<std::byte*>(to) + offset, ring + at, length);
    });
    read += bytes;
    available -= bytes;
  };
  if (!message.has_header && available >= kHeaderBytes) {
    CallWords words;
    get(words.data(), kHeaderBytes);
    const Call sent = unpack_call(words);
    const CallWords mine = pack_call(message.number, message.call);
    // dtype and count, and the whole of the name by its hash
    if ((words[1] >> 8 & 255) != (mine[1] >> 8 & 255) || words[2] != mine[2] || words[4] != mine[4]) {
      refuse(message, sent);
      return false;
    }
    message.has_header = true;
    if (sent.place != 0) message.direct = regions_.at(sent.place, rank);
  }
  bool moved = read != start;
  if (message.has_header && message.moved < message.bytes) {
    const size_t left = message.bytes - message.moved;
    const size_t portion = std::min(left, message.direct != nullptr ? kPortionBytes : available);
    if (message.direct != nullptr) {
      std::memcpy(message.data + message.moved, message.direct + message.moved, portion);
    } else if (portion > 0) {
      get(message.data + message.moved, portion);
    }
    message.moved += portion;
    moved |= portion > 0;
  }
  if (!moved) return false;
  channel.read.store(read);
  if (message.moved == message.bytes) {
    channel.taken.store(message.number + 1);
    complete(message);
    peer.receiving.pop_front();
  }
  arena_.ring_bell(rank);
  return true;
}

bool SlotMail::collect_taken(int rank, Peer& peer) {
  const uint64_t taken = arena_.channel(link_.rank(), rank).taken.load(std::memory_order_acquire);
  bool any = false;
  while (!peer.untaken.empty() && peer.untaken.front()->number < taken) {
    complete(*peer.untaken.front());
    peer.untaken.pop_front();
    any = true;
  }
  return any;
}

void SlotMail::complete(Message& message) {
  traffic_.add(message.call.collective, direct_bytes(message.call, link_.rank(), link_.size()));
  message.done.store(true, std::memory_order_release);
  if (waiters_ > 1) arena_.ring_bell(link_.rank());  // one of them may sleep for what another has done
}

void SlotMail::fail_all(const GroupFailure& failure) {
  for (Peer& peer : peers_)
    for (auto* queue : {&peer.sending, &peer.untaken, &peer.receiving}) {
      for (const auto& message : *queue) {
        message->error = failure;
        message->done.store(true, std::memory_order_release);
      }
      queue->clear();
    }
}

std::string SlotMail::place(const Message& message) const {
  return fmt::format("group '{}', message {} {}", link_.options().name, message.number, message.call.text());
}

void SlotMail::refuse(const Message& message, const Call& sent) {
  const std::string from = link_.rank_text(message.call.root), to = link_.rank_text(link_.rank());
  arena_.fail({GroupFailure::Kind::mismatch, link_.rank(),
               fmt::format("group '{}': message {} from {} to {} differs: {} called {}; {} called {}",
                           link_.options().name, message.number, from, to, from, sent.text(), to,
                           message.call.text())});
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
    while (progress()) continue;  // what it did before may be all that was waited for
    if (!message.done.load(std::memory_order_relaxed))
      fail(GroupFailure::Kind::peer_lost, fmt::format("{} was lost: {}; {}; it {}", link_.rank_text(other),
                                                      loss, place(message), link_.last_seen(other)));
    return;
  }
  if (watch.start_ns == 0 || watch.moved != message.moved) {
    watch = {now, clock_.late_after_ns(link_.options().late_ms), message.moved};
    const CallWords words = pack_call(message.number, message.call);
    auto& waiting = arena_.control(link_.rank()).waiting;
    for (size_t i = kCallWords; i-- > 0;) waiting[i].store(words[i], std::memory_order_relaxed);
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

}  // namespace athanor
