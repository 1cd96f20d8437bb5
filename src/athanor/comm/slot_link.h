// One rank's place in a SlotArena: it counts the events of the group's common schedule, waits for the others
// to reach them, compares calls, and turns deaths, mismatches and lateness into the group's failure (law 8).
//
// All ranks run the same calls and so the same sequence of events; "rank r has reached event e" is one
// counter. Waiting spins for some microseconds if there is a core for every rank, then yields, then sleeps on
// a futex in slices of 25 ms; after each it looks whether the group is broken and whether those waited for
// are alive. Thread rule: one thread at a time, except failure(), throw_if_broken(), fail(), loss_of(), lose(),
// rank_text() and last_seen().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/comm/options.h"
#include "athanor/comm/slot_arena.h"
#include "athanor/comm/step_clock.h"

namespace athanor {

// The place of a group in a world: its failures are the group's, and its ranks are named with their numbers there.
struct Membership {
  SlotArena world;
  std::vector<int> ranks;  // of the members in the world
};

// A rank that waits gives the processor away so often, then sleeps for slices, after which it looks around.
constexpr int kYields = 100;
constexpr int64_t kSliceMs = 25;

class SlotLink {
 public:
  // Why a rank is dead, or "" while it is alive; asked every 25 ms about ranks that are waited for.
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
  std::string loss_of(int rank) const;  // why nothing more can come from a rank, or ""
  // Breaks the group because of that, and the world if the rank has died; `where` is the call that needed it.
  void lose(int rank, const std::string& reason, const std::string& where) const;
  void look_for_deaths() const;           // throws if the group is broken or a member has died
  std::string rank_text(int rank) const;  // rank 1, or rank 1 (3 of the world)
  std::string last_seen(int rank) const;  // what it is doing or did last

  // A call: begin, announce (which is an event; returns when all ranks have announced the same), ..., end.
  void begin(const Call& call);
  uint32_t announce();
  void end();

  uint32_t publish();          // this rank has reached its next event
  void await(uint32_t event);  // until all others have reached it

  // Work of the call in progress that is cut into chunks, so many of each rank, which any rank may do: one
  // that has not come yet does not keep the others waiting. In this order, between announce() and end().
  void join_work();
  std::optional<int64_t> claim(int owner, int64_t num_chunks) const;
  void finish_work();  // returns when all chunks that others have claimed are done, too
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

}  // namespace athanor
