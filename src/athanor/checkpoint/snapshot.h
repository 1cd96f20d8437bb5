// A snapshot is a checkpoint in memory (law 4): each rank keeps the slices of the logical tensors that it holds, and
// ranks with any layout start from them.
//
//   const Snapshot snapshot({.step = state.step, .state = state.to_json(), .tensors = training.tensors()}, arena);
//   ...                                                               // another layout, another number of ranks
//   const SnapshotHead head = load_snapshot(group, snapshot, arena, [&](const TensorSource& source) { next.load(source); });
//
// load_snapshot() calls `load` twice: first to learn which boxes this rank reads, then to give them. Boxes that this
// rank keeps are copied; the others come from the ranks that keep them, in one exchange. A rank that keeps nothing (it
// has just joined) gives an empty snapshot.
//
// Memory: Category::snapshot, four bytes for each element that a rank holds; while it loads, as much again for what
// comes from others. Errors: Error, the same on every rank, where the ranks' snapshots are of different steps, or their
// slices do not cover a tensor exactly once. Thread rule: one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/tensor_source.h"
#include "athanor/comm/group.h"
#include "athanor/tensor/arena.h"

namespace athanor::checkpoint {

struct SnapshotHead {
  int64_t step = -1;
  std::string state = {};  // TrainState, one JSON object as text
};

class Snapshot {
 public:
  Snapshot() = default;
  // Copies the tensors of `content` into the arena, which is in host memory. On the null device nothing is copied.
  Snapshot(const CheckpointContent& content, Arena& arena);

  const SnapshotHead& head() const { return head_; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  SnapshotHead head_;
  std::vector<NamedTensor> tensors_;
};

// Collective. Returns the step and state of the snapshot, also to ranks that keep nothing.
SnapshotHead load_snapshot(Group& group, const Snapshot& snapshot, Arena& arena,
                           const std::function<void(const TensorSource& source)>& load);

// The newest step of which every rank that keeps something has all, the same on all ranks; -1: no rank keeps anything;
// none: there is no such step. `own`: the steps of which this rank has all, the newest first, at most three.
// `has_joined`: it keeps nothing and needs nothing of its own. Collective.
std::optional<int64_t> common_step(Group& group, const std::vector<int64_t>& own, bool has_joined);

}  // namespace athanor::checkpoint
