#include "athanor/parallel/data/replicated_gradients.h"

#include <algorithm>

#include "athanor/kernels/table.h"

namespace athanor::parallel::data {

ReplicatedGradients::ReplicatedGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce,
                                         int parts, WaitClock& clock, BucketSum& sum)
    : GradientStore(buckets, group, parts, clock),
      group_(group),
      arena_(arena),
      reduce_(reduce),
      sum_(sum),
      pending_(buckets.list.size()) {
  make_buffers(1, 1);
  use_first_buffer();
}

// Makes `own` buffers on this rank. `most`: how many the rank with most has, since registration is collective; a rank
// without one registers nothing.
void ReplicatedGradients::make_buffers(size_t own, size_t most) {
  const auto size_bytes = static_cast<uint64_t>(buckets_.total) * sizeof(float);
  while (buffers_.size() < own)  // zeroed once, since the padding between weights is summed, too
    buffers_.push_back(group_.size() == 1 ? zeros(arena_, {buckets_.total}, Dtype::f32, Category::gradients)
                                          : Tensor(arena_.allocate_shareable(size_bytes, Category::gradients),
                                                   0, Shape{buckets_.total}, Dtype::f32));
  for (; group_.size() > 1 && num_shared_ < most; ++num_shared_)
    group_.share(num_shared_ < own ? buffers_[num_shared_].memory() : nullptr, size_bytes,
                 "gradient buffer " + std::to_string(num_shared_));
}

Tensor ReplicatedGradients::slice(int buffer, const Weight& weight) const {
  const auto [index, slot] = buckets_.of(weight);
  const Bucket& bucket = buckets_.list[index];
  const Param& param = weight.param();
  return buffers_[static_cast<size_t>(buffer)]
      .flat(bucket.first + bucket.layout.offsets[slot], param.numel())
      .view(param.shape());
}

void ReplicatedGradients::use_first_buffer() {
  for (const Bucket& bucket : buckets_.list)
    for (Weight* weight : bucket.weights) weight->set_grad(slice(0, *weight));
}

void ReplicatedGradients::begin_step(const GradientStep& step) {
  const int64_t micro_batches = step.num_micro_batches, num_leaves = shares_.num_leaves(micro_batches);
  const LeafRange leaves = shares_.own_leaves(micro_batches);
  plan_ = reduce_ == Reduce::tree ? plan_pass(leaves, num_leaves) : plan_running_sum(leaves, group_.rank());
  int most = 1;
  if (reduce_ == Reduce::tree && (num_leaves != num_leaves_ || shares_.are_set()))
    for (int rank = 0; rank < group_.size() && rank < num_leaves; ++rank)
      most = std::max(most, plan_pass(shares_.leaves(micro_batches, rank), num_leaves).num_buffers);
  num_leaves_ = num_leaves;
  make_buffers(static_cast<size_t>(plan_.num_buffers), static_cast<size_t>(most));
  sum_.begin_step();
  for (size_t b = 0; b < pending_.size(); ++b) pending_[b] = buckets_.list[b].weights.size();
  next_bucket_ = 0;
  use_first_buffer();
  for (const Bucket& bucket : buckets_.list)
    for (Weight* weight : bucket.weights) weight->begin_grad();
}

void ReplicatedGradients::grad_ready(Weight& weight, int64_t micro_batch) {
  weight.end_grad();
  const auto index = static_cast<size_t>(micro_batch);
  if (index + 1 < plan_.micro_batches.size()) {
    if (reduce_ == Reduce::tree) add_to_tree(weight, index);
    return;
  }
  size_t& pending = pending_[buckets_.of(weight).bucket];
  check(pending > 0, "data parallel: weight '{}' was completed twice", weight.use());
  --pending;
  for (; next_bucket_ < pending_.size() && pending_[next_bucket_] == 0; ++next_bucket_)
    start_reduce(next_bucket_);
}

// Makes the additions that this micro-batch allows, and gives the weight the slot of the next one.
void ReplicatedGradients::add_to_tree(Weight& weight, size_t micro_batch) {
  for (const PassPlan::Merge& merge : plan_.micro_batches[micro_batch].merges) {
    Tensor sum = slice(merge.into, weight);
    kernels_of(sum).elementwise.accumulate(sum.queue(), sum, slice(merge.from, weight));
  }
  weight.set_grad(slice(plan_.micro_batches[micro_batch + 1].buffer, weight));
  weight.begin_grad();
}

void ReplicatedGradients::start_reduce(size_t index) {
  const Bucket& bucket = buckets_.list[index];
  const int64_t total = bucket.layout.total();
  const auto part = [&](int buffer) {
    return buffers_[static_cast<size_t>(buffer)].flat(bucket.first, total);
  };
  for (const PassPlan::Merge& merge : plan_.micro_batches.back().merges) {
    Tensor sum = part(merge.into);
    kernels_of(sum).elementwise.accumulate(sum.queue(), sum, part(merge.from));
  }
  std::vector<PartialSum> sums;
  for (const auto& [range, buffer] : plan_.left) sums.push_back({range, part(buffer)});
  sum_.start(index, sums, num_leaves_);
}

void ReplicatedGradients::finish() {
  for (size_t bucket = 0; bucket < pending_.size(); ++bucket)
    check(pending_[bucket] == 0, "data parallel: bucket {} is not complete after the backward pass", bucket);
  sum_.finish();
  use_first_buffer();
}

Tensor ReplicatedGradients::piece(Weight& weight) {
  const auto [index, slot] = buckets_.of(weight);
  const ShardLayout& layout = buckets_.list[index].layout;
  if (layout.rows == 1 || !sum_.sums()) return slice(0, weight);
  const FlatRange range = layout.piece(slot, group_.rank() % layout.rows);
  return buffers_.front().flat(buckets_.list[index].first + layout.offsets[slot] + range.first,
                               range.count());
}

}  // namespace athanor::parallel::data
