// Who writes what: the ranks tell each other which slices of which tensors they hold, and each slice gets one
// writer.
//
//   const SlicePlan plan = plan_slices(group, content.tensors);     // every rank; all get the same plan
//   for (const SlicePlan::Slice& slice : plan.slices)
//     if (slice.writer == group.rank()) write(content.tensors[slice.local]);
//
// A slice that several ranks hold is shared out among them: the largest first, each to the holder with the
// least so far. Errors: Error, the same on every rank, naming the tensor where ranks disagree on its shape or
// where the slices do not cover it exactly once. Thread rule: one thread.
#pragma once

#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/manifest.h"

namespace athanor {

struct SlicePlan {
  struct Slice {
    size_t tensor, slice;  // of `tensors`
    int writer;            // a rank
    size_t local;          // which of this rank's tensors it is, if this rank holds it
    uint64_t size_bytes;
  };
  std::vector<ManifestTensor> tensors;  // whole but for the hashes; in the order in which the ranks name them
  std::vector<Slice> slices;            // of all tensors, in order
};

SlicePlan plan_slices(Group& group, const std::vector<NamedTensor>& tensors);
std::string shard_name(int rank);  // "tensors-00000.safetensors"

}  // namespace athanor
