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
// After a failure the ranks look for a step of which they have all parts: what each has in its own memory, and what it
// was given of ranks that are gone (their slots, checkpoint/format/slots.h).
//
//   const auto common = common_step(group, {{.part = {.generation = 2, .rank = 1, .size = 4}, .steps = {41, 40}}});
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
#include "athanor/checkpoint/format/slot_reader.h"
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
  // Copies what a slot holds, too; boxes that are there already stay. Error where it is of another step.
  void add(const SlotReader& slot, Arena& arena);

  const SnapshotHead& head() const { return head_; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  SnapshotHead head_;
  std::vector<NamedTensor> tensors_;
};

// Collective. Returns the step and state of the snapshot, also to ranks that keep nothing.
SnapshotHead load_snapshot(Group& group, const Snapshot& snapshot, Arena& arena,
                           const std::function<void(const TensorSource& source)>& load);

// The step and state of those who keep a snapshot, the same on all ranks. Collective.
SnapshotHead common_head(Group& group, const SnapshotHead& own);

// The state of one rank of a world. The parts of ranks 0 ... size-1 of a generation are the whole state.
struct StatePart {
  int64_t generation = 0;  // of the world
  int rank = 0, size = 1;
  bool operator==(const StatePart&) const = default;
};
struct HeldPart {
  StatePart part;
  std::vector<int64_t> steps;  // of which all of the part is there, in any order
};
struct CommonStep {
  int64_t generation, step;
  bool operator==(const CommonStep&) const = default;
};

// Of the newest generation of whose parts the ranks together have one step whole, the newest such step; the same on all
// ranks; none: there is no such generation. `own`: what this rank has. Collective.
std::optional<CommonStep> common_step(Group& group, const std::vector<HeldPart>& own);

}  // namespace athanor::checkpoint
