// How the messages of SlotMail move: through ring buffers, or directly from the sender's memory.
#include <algorithm>
#include <cstring>

#include "athanor/comm/shm/mailbox.h"

namespace athanor::comm::shm {

namespace {

constexpr size_t kMessageHeaderBytes = sizeof(CallWords);
constexpr size_t kPortionBytes = size_t{1} << 20;  // copied at a time, with the mutex held

// Splits `bytes` at stream position `stream` where the ring wraps around; `copy` gets position in the ring, offset,
// length.
template <typename Copy>
void copy_ring(size_t ring_bytes, uint64_t stream, size_t bytes, const Copy& copy) {
  const size_t at = stream % ring_bytes, first = std::min(bytes, ring_bytes - at);
  copy(at, size_t{0}, first);
  if (bytes > first) copy(size_t{0}, first, bytes - first);
}

}  // namespace

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
      across_.copy(ring + at, static_cast<const std::byte*>(from) + offset, length);
    });
    written += bytes;
    room -= bytes;
  };
  if (!message.has_header && room >= kMessageHeaderBytes) {
    const CallWords words = pack_call(message.number, message.call);
    put(words.data(), kMessageHeaderBytes);
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
  if (!message.has_header && available >= kMessageHeaderBytes) {
    CallWords words;
    get(words.data(), kMessageHeaderBytes);
    const Call sent = unpack_call(words);
    if (!same_message(words, pack_call(message.number, message.call))) {
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
  traffic_.add(message.call.collective, direct_bytes(message.call, {}, link_.rank(), link_.size()));
  message.done.store(true, std::memory_order_release);
  if (waiters_ > 1) arena_.ring_bell(link_.rank());  // another thread may sleep until this message is done
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

}  // namespace athanor::comm::shm
