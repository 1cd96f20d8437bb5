#include "athanor/parallel/data/replicated_gradients.h"

#include <algorithm>

#include "athanor/kernels/table.h"

namespace athanor::parallel::data {

ReplicatedGradients::ReplicatedGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce,
                                         WaitClock& clock, int parts, CompressedGradients* compressed)
    : GradientStore(buckets, clock),
      group_(group),
      arena_(arena),
      reduce_(reduce),
      compressed_(compressed),
      shares_(group, parts),
      pending_(buckets.list.size()) {
  reserve_buffers(1);
  buffers_.push_back(make_buffer());
  use_first_buffer();
}

void ReplicatedGradients::reserve_buffers(size_t count) {
  while (group_.size() > 1 && reserved_.size() < count)
    reserved_.push_back(group_.allocate_shared(static_cast<size_t>(buckets_.total) * sizeof(float),
                                               "gradient buffer " + std::to_string(reserved_.size())));
}

Tensor ReplicatedGradients::make_buffer() {
  const size_t index = buffers_.size();
  // Zeroed once, since the padding between weights is summed, too.
  if (index >= reserved_.size()) return zeros(arena_, {buckets_.total}, Dtype::f32, Category::gradients);
  return {arena_.adopt(std::move(reserved_[index]), static_cast<uint64_t>(buckets_.total) * sizeof(float),
                       Category::gradients),
          0, Shape{buckets_.total}, Dtype::f32};
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

std::vector<int64_t> ReplicatedGradients::micro_batches_of_step(int64_t num_micro_batches) const {
  return shares_.own_micro_batches(num_micro_batches);
}

void ReplicatedGradients::begin_step(const GradientStep& step) {
  const int64_t micro_batches = step.num_micro_batches, num_leaves = shares_.num_leaves(micro_batches);
  if (reduce_ == Reduce::tree && (num_leaves != num_leaves_ || shares_.are_set())) {
    int most = 0;
    for (int rank = 0; rank < group_.size() && rank < num_leaves; ++rank)
      most = std::max(most, plan_pass(shares_.leaves(micro_batches, rank), num_leaves).num_buffers);
    reserve_buffers(static_cast<size_t>(most));
  }
  num_leaves_ = num_leaves;
  const LeafRange leaves = shares_.own_leaves(micro_batches);
  plan_ = reduce_ == Reduce::tree ? plan_pass(leaves, num_leaves) : plan_running_sum(leaves, group_.rank());
  while (std::ssize(buffers_) < plan_.num_buffers) buffers_.push_back(make_buffer());
  works_.clear();  // left over if a step failed
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
  if (start_compressed(index)) return;
  if (arena_.queue().device() == Device::null) return;
  std::vector<TreeNode> nodes;
  for (const auto& [range, buffer] : plan_.left)
    nodes.push_back({range.first, range.second, part(buffer).data<float>()});
  start_sum(index, nodes);
}

Tensor ReplicatedGradients::sum_of(size_t index) const {
  const Bucket& bucket = buckets_.list[index];
  return buffers_.front().flat(bucket.first, bucket.layout.total());
}

bool ReplicatedGradients::start_compressed(size_t index) {
  if (group_.size() == 1 || compressed_ == nullptr || !compressed_->active()) return false;
  compressed_->start(index, sum_of(index));
  return true;
}

void ReplicatedGradients::start_sum(size_t index, const std::vector<TreeNode>& nodes) {
  if (group_.size() == 1) return;
  const ShardLayout& layout = buckets_.list[index].layout;
  const std::string name = "gradients " + std::to_string(index);
  float* data = nodes.front().data;
  if (reduce_ == Reduce::tree) {
    keep(group_.all_reduce_tree(nodes, num_leaves_, data, layout.total(), name));
  } else if (layout.rows == 1) {
    keep(group_.all_reduce(data, layout.total(), Dtype::f32, name));
  } else {
    keep(group_.reduce_scatter(data, data + group_.rank() * layout.count, layout.count, Dtype::f32, name));
  }
}

void ReplicatedGradients::finish() {
  for (size_t bucket = 0; bucket < pending_.size(); ++bucket)
    check(pending_[bucket] == 0, "data parallel: bucket {} is not complete after the backward pass", bucket);
  for (Work& work : works_) clock_.wait(work, "wait for gradients");
  works_.clear();
  if (compressed_ != nullptr) compressed_->finish(clock_);
  use_first_buffer();
}

Tensor ReplicatedGradients::piece(Weight& weight) {
  const auto [index, slot] = buckets_.of(weight);
  const ShardLayout& layout = buckets_.list[index].layout;
  if (layout.rows == 1 || (compressed_ != nullptr && !compressed_->sums())) return slice(0, weight);
  const FlatRange range = layout.piece(slot, group_.rank() % layout.rows);
  return buffers_.front().flat(buckets_.list[index].first + layout.offsets[slot] + range.first,
                               range.count());
}

}  // namespace athanor::parallel::data
