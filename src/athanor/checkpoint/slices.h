// Which rank writes which slice of a checkpoint (format/slice_plan.h): the ranks exchange lists of the slices that they hold.
//
//   const SlicePlan plan = plan_slices(group, content.tensors);     // every rank; all get the same plan
//   for (const SlicePlan::Slice& slice : plan.slices)
//     if (slice.writer == group.rank()) write(content.tensors[slice.local]);
//
// Collective. Errors: those of the plan, the same on every rank. Thread rule: one thread.
#pragma once

#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/slice_plan.h"

namespace athanor::checkpoint {

SlicePlan plan_slices(Group& group, const std::vector<NamedTensor>& tensors);

}  // namespace athanor::checkpoint
