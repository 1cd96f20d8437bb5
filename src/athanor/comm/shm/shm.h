// The shared-memory transport: ranks as processes of one host, over one shared memory segment.
//
//   launcher                                        rank r, with the segment's descriptor inherited
//   ShmSegment segment(4);                          auto world = open_shm_world(fd, r, 4);
//   ... start 4 processes with segment.fd() ...     world->all().all_reduce(...)
//   segment.mark_dead(1, "killed by signal 9");     -> PeerLost within 100 ms
//
// The segment is a memfd: it has no name, so nothing is left when all processes are killed, and it is sealed against
// shrinking. It grows with groups and with the memory that ranks allocate in their worlds: each group has a terabyte of
// file offsets and each rank sixteen, of which only pages that are written take memory. The algorithms are those of ranks as threads (shm_group.h). Ranks notice the
// death of a peer without a launcher, too: a waiting rank checks every 25 ms whether the peer's process still runs.
// Thread rule: ShmSegment from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "athanor/comm/group.h"
#include "athanor/comm/options.h"
#include "athanor/comm/shm/arena.h"
#include "athanor/comm/world.h"

namespace athanor::comm::shm {

// The launcher's side. Owns the descriptor, which is close-on-exec: to start a rank, clear that flag in the child.
class ShmSegment {
 public:
  explicit ShmSegment(int size, size_t slot_bytes = GroupOptions{}.slot_bytes, int generation = 0);
  static ShmSegment adopt(
      int fd);  // of a launcher that is gone; owns the descriptor. Error if it is no segment.
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  int fd() const { return fd_; }
  void mark_dead(int rank, const std::string& reason);  // all members throw PeerLost(rank, ...)
  void mark_left(int rank);                             // only members that still need the rank throw
  std::optional<GroupFailure> failure() const { return arena_->failure(); }

 private:
  explicit ShmSegment(int fd, std::shared_ptr<void> memory, SlotArena arena);

  int fd_ = -1;
  std::shared_ptr<void> memory_;
  std::optional<SlotArena> arena_;
};

size_t shm_segment_bytes(int size, size_t slot_bytes = GroupOptions{}.slot_bytes);

// Joins the segment `fd` as rank `rank`. The descriptor stays the caller's and becomes close-on-exec. Error if it is
// not a segment of `size` ranks and of options.generation, or if the rank is taken. options.slot_bytes is ignored: the segment has its own.
std::unique_ptr<World> open_shm_world(int fd, int rank, int size, const GroupOptions& options = {});
// The group of all ranks only, without subgroups.
std::unique_ptr<Group> open_shm_group(int fd, int rank, int size, const GroupOptions& options = {});

}  // namespace athanor::comm::shm
