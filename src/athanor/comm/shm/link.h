// One rank's connection to a SlotArena: synchronisation by events, comparison of calls, and detection of dead,
// mismatched and late ranks, which break the group (law 8).
//
//   link.begin(call);
//   const uint32_t event = link.announce();     // returns when all ranks have announced the same call
//   link.await(link.publish());                 // this rank reaches the next event and waits for all others
//   link.end();
//
// All ranks run the same calls and so the same sequence of events; a rank's progress is the number of events that it
// has reached. Waiting spins for some microseconds if there is a core for every rank, then yields, then sleeps on a
// futex for 25 ms at a time; after each sleep it polls for a broken group and for dead peers.
// Thread rule: one thread at a time, except failure(), throw_if_broken(), fail(), loss_of(), lose(), rank_text() and
// last_seen().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/comm/options.h"
#include "athanor/comm/shm/arena.h"
#include "athanor/comm/step_clock.h"

namespace athanor::comm::shm {

// How a group belongs to a world: failures of the world break the group, and messages name ranks of the world, too.
struct Membership {
  SlotArena world;
  std::vector<int> ranks;  // the members' ranks in the world
};

// A waiting rank yields so often, then sleeps for slices; between slices it polls for dead peers.
constexpr int kYields = 100;
constexpr int64_t kSliceMs = 25;

class SlotLink {
 public:
  // Why a rank is dead, or "" while it lives. Called every 25 ms for ranks that are waited for.
  using Liveness = std::function<std::string(int rank)>;

  SlotLink(SlotArena arena, int rank, GroupOptions options, Liveness death_of,
           std::optional<Membership> membership = {});

  const SlotArena& arena() const { return arena_; }
  const GroupOptions& options() const { return options_; }
  int rank() const { return rank_; }
  int size() const { return arena_.size(); }
  void throw_if_broken() const;
  std::optional<GroupFailure> failure() const;
  // Breaks the group and throws.
  [[noreturn]] void fail(GroupFailure::Kind kind, int rank, const std::string& text) const;
  std::string loss_of(int rank) const;  // why the rank is dead or has left, or ""
  // Breaks the group because a rank is lost, and the world if it has died; `where` is the call that needed it.
  void lose(int rank, const std::string& reason, const std::string& where) const;
  void look_for_deaths() const;           // throws if the group is broken or a member has died
  std::string rank_text(int rank) const;  // rank 1, or rank 1 (3 of the world)
  std::string last_seen(int rank) const;  // what the rank is doing or did last

  // A call: begin, announce, ..., end. announce() is an event; it returns when all ranks have announced the same call.
  void begin(const Call& call);
  uint32_t announce();
  void end();

  uint32_t publish();          // this rank has reached its next event
  void await(uint32_t event);  // waits until all other ranks have reached the event

  // Work stealing within a call, in this order, between announce() and end(). Each rank owns num_chunks chunks, and any
  // rank may claim any chunk, so no rank waits for one that has not started.
  void join_work();
  // The owner's next chunk, if one is left.
  std::optional<int64_t> claim(int owner, int64_t num_chunks) const;
  void finish_work();  // returns when the chunks that other ranks have claimed are done, too
  uint64_t place(int rank) const { return arena_.place(rank, sequence_); }
  std::string place() const;  // group 'world', collective 17 all_reduce(f32[8], "x")

 private:
  struct Watch;  // one wait's clock
  bool reached(int rank, uint32_t event) const;
  void await_pending(uint32_t event, bool compare);
  void others_are_pending();
  void look_around(uint32_t event, Watch& watch);
  void mismatch() const;
  void play_fault();
  std::string missing(uint32_t event) const;
  std::string ranks_text(const std::vector<int>& ranks) const;

  SlotArena arena_;
  int rank_;
  GroupOptions options_;
  Liveness death_of_;
  std::optional<Membership> membership_;
  bool spins_;
  uint32_t event_ = 0;
  uint64_t sequence_ = 0;  // of the call in progress
  Call call_;
  std::vector<int> pending_;
  StepClock clock_;
};

}  // namespace athanor::comm::shm
