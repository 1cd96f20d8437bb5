#include "athanor/parallel/pass_plan.h"

#include <algorithm>

namespace athanor {

PassPlan plan_pass(const LeafRange& grains, int64_t num_grains) {
  PassPlan plan;
  for (int64_t grain = grains.first; grain < grains.second; ++grain) {
    plan.grains.push_back({.buffer = static_cast<int>(plan.left.size()), .merges = {}});
    plan.left.push_back({{grain, grain + 1}, plan.grains.back().buffer});
    plan.num_buffers = std::max(plan.num_buffers, static_cast<int>(plan.left.size()));
    while (plan.left.size() >= 2) {
      const PassPlan::Partial right = plan.left.back();
      PassPlan::Partial& left = plan.left[plan.left.size() - 2];
      if (!are_one_node(left.range, right.range, num_grains)) break;
      plan.grains.back().merges.push_back({left.buffer, right.buffer});
      left.range.second = right.range.second;
      plan.left.pop_back();
    }
  }
  return plan;
}

PassPlan plan_running_sum(const LeafRange& grains, int rank) {
  PassPlan plan;
  plan.grains.resize(static_cast<size_t>(grains.second - grains.first), {.buffer = 0, .merges = {}});
  plan.left.push_back({{rank, rank + 1}, 0});
  return plan;
}

}  // namespace athanor
