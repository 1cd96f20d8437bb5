// Ranks as processes of one host, over one shared segment.
//
//   launcher                                        rank r, with the segment's descriptor inherited
//   ShmSegment segment(4);                          auto world = open_shm_world(fd, r, 4);
//   ... start 4 processes with segment.fd() ...     world->all().all_reduce(...)
//   segment.mark_dead(1, "killed by signal 9");     -> PeerLost within 100 ms
//
// The segment is a memfd: it has no name, so nothing is left behind when all processes are killed, and it is
// sealed against shrinking. It grows by what the ranks allocate_shared() and by the groups they make: each has a
// terabyte of the file's offsets, of which only what is touched is memory. The same algorithms as between
// threads (comm/slot_group.h). A rank that dies is noticed by those who wait for it, also without a launcher:
// they look every 25 ms whether its process still runs. Thread rule: ShmSegment from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "athanor/comm/group.h"
#include "athanor/comm/options.h"
#include "athanor/comm/slot_arena.h"
#include "athanor/comm/world.h"

namespace athanor {

// The creator's side. Owns the descriptor (close-on-exec: whoever starts a rank clears that in the child).
class ShmSegment {
 public:
  explicit ShmSegment(int size, size_t slot_bytes = GroupOptions{}.slot_bytes);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  int fd() const { return fd_; }
  void mark_dead(int rank, const std::string& reason);  // all members throw PeerLost(rank, ...)
  void mark_left(int rank);                             // only those throw who still need it
  std::optional<GroupFailure> failure() const { return arena_->failure(); }

 private:
  int fd_ = -1;
  std::shared_ptr<void> memory_;
  std::optional<SlotArena> arena_;
};

size_t shm_segment_bytes(int size, size_t slot_bytes = GroupOptions{}.slot_bytes);

// Joins the ranks of the segment `fd`, which stays the caller's and becomes close-on-exec. Error if it is not
// a segment of `size` ranks or if the rank has been taken. options.slot_bytes is the segment's business.
std::unique_ptr<World> open_shm_world(int fd, int rank, int size, const GroupOptions& options = {});
// For those who need no groups but that of all.
std::unique_ptr<Group> open_shm_group(int fd, int rank, int size, const GroupOptions& options = {});

}  // namespace athanor
