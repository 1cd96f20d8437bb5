#include "athanor/parallel/round_plan.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor {

RoundPlan RoundPlanner::next(int num_rows) {
  check(num_rows >= 1 && done_ + num_rows <= last_, "round: got {} grains after {} of {}", num_rows, done_,
        last_);
  RoundPlan plan;
  for (int row = 0; row < num_rows; ++row, ++done_) {
    partials_.push_back({{done_, done_ + 1}, {.is_row = true, .index = row}});
    while (partials_.size() >= 2) {
      const Partial right = partials_.back();
      Partial& left = partials_[partials_.size() - 2];
      if (!are_one_node(left.range, right.range, num_grains_)) break;
      plan.adds.push_back({.into = left.place, .from = right.place, .copy = false});
      left.range.second = right.range.second;
      partials_.pop_back();
    }
  }
  // Rows are gone after the round. Partial i lies in buffer i, so what is left of it is never overwritten.
  for (size_t i = 0; i < partials_.size(); ++i) {
    RoundPlan::Place& place = partials_[i].place;
    const RoundPlan::Place buffer{.is_row = false, .index = static_cast<int>(i)};
    if (place.is_row) plan.adds.push_back({.into = buffer, .from = place, .copy = true});
    place = buffer;
  }
  num_buffers_ = std::max(num_buffers_, static_cast<int>(partials_.size()));
  return plan;
}

std::vector<LeafRange> RoundPlanner::left() const {
  std::vector<LeafRange> ranges;
  for (const Partial& partial : partials_) ranges.push_back(partial.range);
  return ranges;
}

}  // namespace athanor
