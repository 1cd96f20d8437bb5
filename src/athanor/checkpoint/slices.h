// Which rank writes which slice of a checkpoint: the ranks exchange lists of the slices that they hold, and each slice
// gets one writer.
//
//   const SlicePlan plan = plan_slices(group, content.tensors);     // every rank; all get the same plan
//   for (const SlicePlan::Slice& slice : plan.slices)
//     if (slice.writer == group.rank()) write(content.tensors[slice.local]);
//
// Slices that several ranks hold are balanced over their holders: largest first, each to the holder with the fewest
// bytes so far. Collective. Errors: Error, the same on every rank, naming the tensor where ranks disagree on its shape,
// or where the slices do not cover it exactly once. Thread rule: one thread.
#pragma once

#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/manifest.h"

namespace athanor::checkpoint {

struct SlicePlan {
  struct Slice {
    size_t tensor, slice;  // tensors[tensor].slices[slice]
    int writer;            // a rank
    size_t local;          // index in this rank's list of tensors, if this rank holds the slice
    uint64_t size_bytes;
  };
  std::vector<ManifestTensor> tensors;  // complete except for hashes; in the order of the ranks' lists
  std::vector<Slice> slices;            // of all tensors, in order
};

SlicePlan plan_slices(Group& group, const std::vector<NamedTensor>& tensors);
std::string shard_name(int rank);  // "tensors-00000.safetensors"

}  // namespace athanor::checkpoint
