#include "athanor/parallel/data/pass_plan.h"

#include <algorithm>

namespace athanor::parallel::data {

PassPlan plan_pass(const LeafRange& micro_batches, int64_t num_micro_batches) {
  PassPlan plan;
  for (int64_t micro_batch = micro_batches.first; micro_batch < micro_batches.second; ++micro_batch) {
    plan.micro_batches.push_back({.buffer = static_cast<int>(plan.left.size()), .merges = {}});
    plan.left.push_back({{micro_batch, micro_batch + 1}, plan.micro_batches.back().buffer});
    plan.num_buffers = std::max(plan.num_buffers, static_cast<int>(plan.left.size()));
    while (plan.left.size() >= 2) {
      const PassPlan::Partial right = plan.left.back();
      PassPlan::Partial& left = plan.left[plan.left.size() - 2];
      if (!are_one_node(left.range, right.range, num_micro_batches)) break;
      plan.micro_batches.back().merges.push_back({left.buffer, right.buffer});
      left.range.second = right.range.second;
      plan.left.pop_back();
    }
  }
  return plan;
}

PassPlan plan_running_sum(const LeafRange& micro_batches, int rank) {
  PassPlan plan;
  plan.micro_batches.resize(static_cast<size_t>(micro_batches.second - micro_batches.first),
                            {.buffer = 0, .merges = {}});
  plan.left.push_back({{rank, rank + 1}, 0});
  return plan;
}

}  // namespace athanor::parallel::data
