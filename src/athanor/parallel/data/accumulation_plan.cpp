#include "athanor/parallel/data/accumulation_plan.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::parallel::data {

// Adds the last two partial sums as long as together they are a node of the tree.
void RoundPlanner::merge_last(Partials& partials, RoundPlan& plan) const {
  const int64_t leaves = num_micro_batches_ * std::ssize(partials_);
  while (partials.size() >= 2) {
    const Partial right = partials.back();
    Partial& left = partials[partials.size() - 2];
    if (!are_one_node(left.range, right.range, leaves)) return;
    plan.adds.push_back({.into = left.place, .from = right.place, .copy = false});
    left.range.second = right.range.second;
    partials.pop_back();
  }
}

RoundPlan RoundPlanner::next(int num_rows) {
  const auto parts = static_cast<int>(partials_.size());
  const int micro_batches = num_rows / parts;
  check(micro_batches >= 1 && num_rows % parts == 0 && done_ + micro_batches <= last_,
        "accumulation: got {} rows of {} parts after micro-batch {} of {}", num_rows, parts, done_, last_);
  RoundPlan plan;
  for (int row = 0; row < num_rows; ++row) {
    const int part = row % parts;
    const int64_t leaf = part * num_micro_batches_ + done_ + row / parts;
    Partials& partials = partials_[static_cast<size_t>(part)];
    partials.push_back({{leaf, leaf + 1}, {.is_row = true, .index = row}});
    merge_last(partials, plan);
  }
  done_ += micro_batches;
  // Received rows are gone after the accumulation step, so what is left in a row is copied to a buffer. A partial sum
  // keeps its buffer for good, so no copy overwrites another partial sum.
  for (int part = 0; part < parts; ++part) {
    Partials& partials = partials_[static_cast<size_t>(part)];
    for (size_t i = 0; i < partials.size(); ++i) {
      RoundPlan::Place& place = partials[i].place;
      const RoundPlan::Place buffer{.is_row = false, .index = static_cast<int>(i) * parts + part};
      if (place.is_row) plan.adds.push_back({.into = buffer, .from = place, .copy = true});
      place = buffer;
      num_buffers_ = std::max(num_buffers_, buffer.index + 1);
    }
  }
  if (complete()) meet(plan);
  return plan;
}

// After the last accumulation step: merges the partial sums of all parts, from left to right.
void RoundPlanner::meet(RoundPlan& plan) {
  Partials met;
  for (Partials& partials : partials_) {
    for (const Partial& partial : partials) {
      met.push_back(partial);
      merge_last(met, plan);
    }
    partials.clear();
  }
  partials_.front() = std::move(met);
}

std::vector<RoundPlanner::Node> RoundPlanner::left() const {
  std::vector<Node> nodes;
  for (const Partials& partials : partials_)
    for (const Partial& partial : partials) nodes.push_back({partial.range, partial.place.index});
  return nodes;
}

}  // namespace athanor::parallel::data
