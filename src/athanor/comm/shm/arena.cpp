#include "athanor/comm/shm/arena.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/comm/call_mismatch.h"
#include "athanor/comm/shm/futex.h"

namespace athanor::comm::shm {

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(sizeof(RankControl) == 2048 && sizeof(ChannelControl) == 256);

namespace {

constexpr uint64_t kSegmentMagic = 0x34736c6c65746100;  // "\0atells4"
constexpr size_t kSegmentHeaderBytes = 4096;
constexpr size_t kTextBytes = 3072;
constexpr int kMaxRanks = 1024;
constexpr size_t kMinRingBytes = 1024, kMaxRingBytes = size_t{256} << 10;
constexpr int kChunkBits = 24;  // bits of a claim for the chunk; the bits above have the call's number

enum FailureState : uint32_t { kNoFailure, kWriting, kFailed };

size_t to_page(size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}
size_t slots_offset(int size) {
  return to_page(kSegmentHeaderBytes + static_cast<size_t>(size) * sizeof(RankControl));
}
size_t channels_offset(int size, size_t slot_bytes) {
  return to_page(slots_offset(size) + static_cast<size_t>(size) * 2 * slot_bytes);
}
size_t num_channels(int size) {
  return static_cast<size_t>(size) * static_cast<size_t>(size);
}
size_t rings_offset(int size, size_t slot_bytes) {
  return to_page(channels_offset(size, slot_bytes) + num_channels(size) * sizeof(ChannelControl));
}
// Sized so that all rings from one rank take about as much memory as four slots.
size_t ring_bytes_of(int size, size_t slot_bytes) {
  return std::clamp(4 * slot_bytes / static_cast<size_t>(size) / 64 * 64, kMinRingBytes, kMaxRingBytes);
}

}  // namespace

struct SlotArena::Header {
  uint64_t magic;
  uint64_t slot_bytes;
  int32_t size, generation;
  std::atomic<uint32_t> failure_state;  // a futex
  uint32_t failure_kind;
  int32_t failure_rank;
  char failure_text[kTextBytes];
};

void GroupFailure::raise() const {
  switch (kind) {
    case Kind::mismatch:
      throw CallMismatch(text);
    case Kind::peer_lost:
      throw PeerLost(rank, text);
    case Kind::timeout:
      throw Timeout(text);
    case Kind::aborted:
      break;
  }
  throw Recoverable(text);
}

GroupFailure GroupFailure::of(const std::exception& error, int rank) {
  if (const auto* lost = dynamic_cast<const PeerLost*>(&error))
    return {Kind::peer_lost, lost->rank(), error.what()};
  Kind kind = Kind::aborted;
  if (dynamic_cast<const Timeout*>(&error) != nullptr) kind = Kind::timeout;
  if (dynamic_cast<const Error*>(&error) != nullptr) kind = Kind::mismatch;
  return {kind, rank, error.what()};
}

size_t SlotArena::bytes(int size, size_t slot_bytes) {
  check(1 <= size && size <= kMaxRanks, "group of {} ranks, expected 1 ... {}", size, kMaxRanks);
  check(
      slot_bytes % 64 == 0 && slot_bytes >= 64 * static_cast<size_t>(size) && slot_bytes <= (size_t{1} << 30),
      "slot_bytes {}: expected a multiple of 64 from 64 x {} ranks to 1 GiB", slot_bytes, size);
  return rings_offset(size, slot_bytes) + num_channels(size) * ring_bytes_of(size, slot_bytes);
}

SlotArena::SlotArena(void* memory) : header_(static_cast<Header*>(memory)) {
  auto* base = static_cast<std::byte*>(memory);
  controls_ = static_cast<RankControl*>(static_cast<void*>(base + kSegmentHeaderBytes));
  slots_ = base + slots_offset(header_->size);
  channels_ = static_cast<ChannelControl*>(
      static_cast<void*>(base + channels_offset(header_->size, header_->slot_bytes)));
}

SlotArena SlotArena::create(void* memory, int size, size_t slot_bytes, int generation) {
  static_assert(sizeof(Header) <= kSegmentHeaderBytes);
  bytes(size, slot_bytes);
  auto* header = new (memory) Header{};
  header->slot_bytes = slot_bytes;
  header->size = size;
  header->generation = generation;
  SlotArena arena(memory);
  for (int rank = 0; rank < size; ++rank) new (&arena.controls_[rank]) RankControl{};
  header->magic = kSegmentMagic;
  return arena;
}

SlotArena SlotArena::attach(void* memory, size_t memory_bytes, const std::string& what) {
  check(memory_bytes >= kSegmentHeaderBytes, "{}: {} bytes, expected a segment of at least {}", what,
        memory_bytes, kSegmentHeaderBytes);
  const auto* header = static_cast<const Header*>(memory);
  check(header->magic == kSegmentMagic, "{}: not a segment made by this program's launcher", what);
  check(1 <= header->size && header->size <= kMaxRanks && header->slot_bytes <= (size_t{1} << 30) &&
            bytes(header->size, header->slot_bytes) <= memory_bytes,
        "{}: a segment of {} bytes cannot hold {} ranks with slots of {} bytes", what, memory_bytes,
        header->size, header->slot_bytes);
  return SlotArena(memory);
}

int SlotArena::size() const {
  return header_->size;
}
int SlotArena::generation() const {
  return header_->generation;
}
size_t SlotArena::slot_bytes() const {
  return header_->slot_bytes;
}
std::byte* SlotArena::slot(int rank, int which) const {
  return slots_ + (static_cast<size_t>(rank) * 2 + static_cast<size_t>(which)) * slot_bytes();
}
RankControl& SlotArena::control(int rank) const {
  return controls_[rank];
}

void SlotArena::fail(const GroupFailure& failure) const {
  uint32_t state = kNoFailure;
  if (!header_->failure_state.compare_exchange_strong(state, kWriting)) return;
  header_->failure_kind = static_cast<uint32_t>(failure.kind);
  header_->failure_rank = failure.rank;
  const size_t length = std::min(failure.text.size(), kTextBytes - 1);
  std::memcpy(header_->failure_text, failure.text.data(), length);
  header_->failure_text[length] = '\0';
  header_->failure_state.store(kFailed);
  wake_all();
}

bool SlotArena::broken() const {
  return header_->failure_state.load() != kNoFailure;
}

std::optional<GroupFailure> SlotArena::failure() const {
  uint32_t state = header_->failure_state.load();
  if (state == kNoFailure) return std::nullopt;
  // Another rank is writing the reason, which takes microseconds, unless it is killed while it writes.
  for (int64_t end = now_ns() + 100'000'000; state == kWriting && now_ns() < end;) {
    futex_sleep(header_->failure_state, kWriting, 1);
    state = header_->failure_state.load();
  }
  if (state != kFailed)
    return GroupFailure{GroupFailure::Kind::aborted, 0,
                        "the group was aborted by a rank that died saying why"};
  return GroupFailure{static_cast<GroupFailure::Kind>(header_->failure_kind), header_->failure_rank,
                      std::string(header_->failure_text)};
}

void SlotArena::wake_all() const {
  futex_wake(header_->failure_state);
  for (int rank = 0; rank < size(); ++rank) {
    futex_wake(control(rank).progress);
    ring_bell(rank);
  }
}

void SlotArena::publish(int rank, uint32_t progress) const {
  // Sequentially consistent, as is the sleeper's order (count itself as a sleeper, then the kernel reads progress):
  // either this rank sees the sleeper, or the sleeper sees the new progress.
  control(rank).progress.store(progress);
  if (control(rank).sleepers.load() != 0) futex_wake(control(rank).progress);
}

void SlotArena::set_presence(int rank, Presence presence) const {
  control(rank).presence.store(static_cast<uint32_t>(presence));
  futex_wake(control(rank).progress);
  for (int other = 0; other < size(); ++other) ring_bell(other);
}

void SlotArena::sleep_while(int rank, uint32_t seen, int64_t timeout_ms) const {
  // A rank killed in its sleep stays counted as a sleeper: that costs needless wakes but never loses one.
  control(rank).sleepers.fetch_add(1);
  futex_sleep(control(rank).progress, seen, timeout_ms);
  control(rank).sleepers.fetch_sub(1);
}

ChannelControl& SlotArena::channel(int from, int to) const {
  return channels_[static_cast<size_t>(from) * static_cast<size_t>(size()) + static_cast<size_t>(to)];
}
std::byte* SlotArena::ring(int from, int to) const {
  auto* base = static_cast<std::byte*>(static_cast<void*>(header_)) + rings_offset(size(), slot_bytes());
  return base + static_cast<size_t>(&channel(from, to) - channels_) * ring_bytes();
}
size_t SlotArena::ring_bytes() const {
  return ring_bytes_of(size(), slot_bytes());
}
void SlotArena::ring_bell(int rank) const {
  control(rank).bell.fetch_add(1);
  if (control(rank).bell_sleepers.load() != 0) futex_wake(control(rank).bell);
}
void SlotArena::sleep_while_bell(int rank, uint32_t seen, int64_t timeout_ms) const {
  control(rank).bell_sleepers.fetch_add(1);
  futex_sleep(control(rank).bell, seen, timeout_ms);
  control(rank).bell_sleepers.fetch_sub(1);
}

void SlotArena::sleep_until_broken(int64_t timeout_ms) const {
  futex_sleep(header_->failure_state, kNoFailure, timeout_ms);
}

void SlotArena::write_call(int rank, uint64_t sequence, const Call& call) const {
  store_words(pack_call(sequence, call), control(rank).calls[sequence % 2]);
}

std::optional<Call> SlotArena::read_call(int rank, uint64_t sequence) const {
  const CallWords words = load_words(control(rank).calls[sequence % 2]);
  if (words[0] != sequence + 1) return std::nullopt;
  return unpack_call(words);
}

std::string SlotArena::last_seen(int rank) const {
  const auto& control = this->control(rank);
  if (static_cast<Presence>(control.presence.load()) == Presence::not_joined) return "has not joined yet";
  const uint64_t done = control.calls_done.load(std::memory_order_relaxed);
  std::string text = "has called no collective yet";
  if (const auto call = read_call(rank, done)) {
    text = fmt::format("is in collective {} {}", done, call->text());
  } else if (done > 0) {
    if (const auto last = read_call(rank, done - 1))
      text = fmt::format("last called collective {} {} and finished it", done - 1, last->text());
  }
  const CallWords waiting = load_words(control.waiting);
  if (waiting[0] != 0)
    text += fmt::format(" and waits for message {} {}", waiting[0] - 1, unpack_call(waiting).text());
  return text;
}

bool SlotArena::same_call(int rank, int other, uint64_t sequence) const {
  const auto &a = control(rank).calls[sequence % 2], &b = control(other).calls[sequence % 2];
  for (size_t i = 0; i < kCallPlaceWord; ++i)
    if (a[i].load(std::memory_order_relaxed) != b[i].load(std::memory_order_relaxed)) return false;
  return true;
}

uint64_t SlotArena::place(int rank, uint64_t sequence) const {
  return control(rank).calls[sequence % 2][kCallPlaceWord].load(std::memory_order_relaxed);
}

std::optional<int64_t> SlotArena::claim(int owner, uint64_t sequence, int64_t count) const {
  auto& claims = control(owner).claims;
  const uint64_t none = sequence << kChunkBits;
  uint64_t seen = claims.load();
  while (true) {
    const uint64_t next = (seen >> kChunkBits) == (none >> kChunkBits) ? seen : none;
    const auto chunk = static_cast<int64_t>(next - none);
    if (chunk >= count) return std::nullopt;
    if (claims.compare_exchange_weak(seen, next + 1)) return chunk;
  }
}

}  // namespace athanor::comm::shm
