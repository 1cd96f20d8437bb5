// The memory that the ranks of a group on one host share, whether threads or processes: a header with the group's
// failure, a control block per rank, two data slots per rank, and a channel for messages per ordered pair of ranks.
//
//   [header 4 KiB][control 2 KiB x ranks, to a page][rank 0: slot 0, slot 1][rank 1: slot 0, slot 1] ...
//   [channel control 256 B x ranks^2, to a page][ring 0 -> 0][ring 0 -> 1] ...
//
//   SlotArena arena = SlotArena::create(memory, /*size=*/4, slot_bytes);   // zeroed memory of SlotArena::bytes()
//   arena.publish(rank, event);                                           // wakes ranks in sleep_while(rank, ...)
//
// All of it is plain data and lock-free atomics, so it means the same in every process that maps it, and a process may
// die at any instruction without leaving a lock behind. Ranks wait by a futex on another rank's progress.
// Thread rule: a view; copy it freely, use it from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "athanor/comm/call.h"
#include "athanor/comm/call_words.h"

namespace athanor::comm::shm {

// Why a group is broken: what its members throw.
struct GroupFailure {
  enum class Kind : uint32_t { mismatch = 1, peer_lost, timeout, aborted };
  Kind kind = Kind::aborted;
  int rank = 0;  // the rank to blame
  std::string text;

  [[noreturn]] void raise() const;  // CallMismatch, PeerLost, Timeout, Recoverable
  // The failure whose raise() throws such an error; `rank`: to blame if the error does not say.
  static GroupFailure of(const std::exception& error, int rank);
};

enum class Presence : uint32_t { not_joined, joined, left };

// A rank's control block. Other ranks write only sleepers, claims, bell and bell_sleepers.
struct alignas(2048) RankControl {
  std::atomic<uint32_t> progress;              // events this rank has reached, modulo 2^32; a futex
  alignas(64) std::atomic<uint32_t> sleepers;  // ranks that sleep on `progress`
  alignas(64) std::atomic<uint32_t> presence;
  std::atomic<uint64_t> calls_done;
  std::atomic<int64_t> process;        // 0 for a thread
  std::atomic<int64_t> process_start;  // distinguishes a process from a later one with the same number
  // The calls in progress by sequence number modulo 2, packed by write_call().
  std::atomic<uint64_t> calls[2][kCallWords];
  // Work stealing (SlotLink::claim): the next of this rank's chunks to claim, with the call's number; and the number +
  // 1 of the last call in which this rank joined the work.
  alignas(64) std::atomic<uint64_t> claims;
  std::atomic<uint64_t> working;
  // Doorbell: rung by ranks that have written to a channel to this rank or read from a channel of this rank.
  alignas(64) std::atomic<uint32_t> bell;  // a futex
  alignas(64) std::atomic<uint32_t> bell_sleepers;
  // The message that this rank has waited for at a poll for dead peers, packed, for reports; 0: none.
  std::atomic<uint64_t> waiting[kCallWords];
};

// A stream of bytes from one rank to another through a ring buffer. The counters only grow.
struct alignas(256) ChannelControl {
  std::atomic<uint64_t> written;            // bytes written by the sender
  alignas(64) std::atomic<uint64_t> read;   // bytes read by the receiver
  alignas(64) std::atomic<uint64_t> taken;  // messages that the receiver has completed
};

class SlotArena {
 public:
  static size_t bytes(int size, size_t slot_bytes);
  // Formats zeroed memory of bytes(size, slot_bytes). `generation`: of the world, which only its own arena needs.
  static SlotArena create(void* memory, int size, size_t slot_bytes, int generation = 0);
  // Error naming `what` if the memory is not an arena of this program.
  static SlotArena attach(void* memory, size_t memory_bytes, const std::string& what);

  int size() const;
  int generation() const;
  size_t slot_bytes() const;
  std::byte* slot(int rank, int which) const;
  RankControl& control(int rank) const;

  // Breaks the group and wakes all waiting ranks. The first failure stays; every rank throws it.
  void fail(const GroupFailure& failure) const;
  std::optional<GroupFailure> failure() const;
  bool broken() const;

  void publish(int rank, uint32_t progress) const;
  void set_presence(int rank, Presence presence) const;  // wakes ranks that wait for this rank
  // Sleeps until the rank's progress is no longer `seen`, the group breaks, a presence changes, or the timeout.
  void sleep_while(int rank, uint32_t seen, int64_t timeout_ms) const;
  void sleep_until_broken(int64_t timeout_ms) const;

  ChannelControl& channel(int from, int to) const;
  std::byte* ring(int from, int to) const;
  size_t ring_bytes() const;
  void ring_bell(int rank) const;
  void sleep_while_bell(int rank, uint32_t seen, int64_t timeout_ms) const;

  void write_call(int rank, uint64_t sequence, const Call& call) const;
  // The call that a rank has announced under this number; nothing if it has not yet, or is past it.
  std::optional<Call> read_call(int rank, uint64_t sequence) const;
  bool same_call(int rank, int other, uint64_t sequence) const;
  uint64_t place(int rank, uint64_t sequence) const;  // Call::place of a call that all ranks have announced
  // For error messages: what a rank is doing or did last. "is in collective 3 barrier("x")"
  std::string last_seen(int rank) const;

  // Claims the next unclaimed chunk of `owner` in this call; nothing if all `count` are claimed.
  std::optional<int64_t> claim(int owner, uint64_t sequence, int64_t count) const;

 private:
  struct Header;
  explicit SlotArena(void* memory);
  void wake_all() const;

  Header* header_ = nullptr;
  RankControl* controls_ = nullptr;
  std::byte* slots_ = nullptr;
  ChannelControl* channels_ = nullptr;
};

}  // namespace athanor::comm::shm
