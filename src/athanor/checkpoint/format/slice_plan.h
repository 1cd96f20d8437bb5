// Which rank writes which slice of a checkpoint, from the lists of the slices that all ranks hold.
//
//   const SlicePlan plan = plan_slices(lists, /*rank=*/0);
//   for (const SlicePlan::Slice& slice : plan.slices)
//     if (slice.writer == 0) write(lists[0][slice.local]);
//
// Slices that several ranks hold are balanced over their holders: largest first, each to the holder with the fewest
// bytes so far. Errors: Error naming the tensor where lists disagree on its shape, or where the slices do not cover it
// exactly once. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/checkpoint/format/manifest.h"

namespace athanor::checkpoint::format {

// A box of a logical tensor of f32 values that a rank holds.
struct HeldSlice {
  std::string name;
  Shape whole;
  Box box;
};

struct SlicePlan {
  struct Slice {
    size_t tensor, slice;  // tensors[tensor].slices[slice]
    int writer;            // a rank
    size_t local;          // index in the list of the rank that the plan was asked for, if it holds the slice
    uint64_t size_bytes;
  };
  std::vector<ManifestTensor> tensors;  // complete except for hashes; in the order of the ranks' lists
  std::vector<Slice> slices;            // of all tensors, in order
};

// `lists`: by rank. All ranks get the same plan, but for `local`, which is of `rank`'s list.
SlicePlan plan_slices(const std::vector<std::vector<HeldSlice>>& lists, int rank);
std::string shard_name(int rank);  // "tensors-00000.safetensors"

}  // namespace athanor::checkpoint::format
