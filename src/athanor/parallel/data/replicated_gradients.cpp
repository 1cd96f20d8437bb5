#include "athanor/parallel/data/replicated_gradients.h"

#include <algorithm>

#include "athanor/kernels/table.h"

namespace athanor::parallel::data {

ReplicatedGradients::ReplicatedGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce,
                                         WaitClock& clock, int parts, CompressedGradients* compressed)
    : buckets_(buckets),
      group_(group),
      arena_(arena),
      reduce_(reduce),
      clock_(clock),
      compressed_(compressed),
      shares_(group, parts),
      pending_(buckets.list.size()) {
  reserve_buffers(1);
  use_buffer(take_buffer());
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

int ReplicatedGradients::take_buffer() {
  if (free_buffers_.empty()) {
    buffers_.push_back(make_buffer());
    return static_cast<int>(buffers_.size()) - 1;
  }
  const int buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

Tensor ReplicatedGradients::slice(int buffer, const Weight& weight) const {
  const auto [index, slot] = buckets_.of(weight);
  const Bucket& bucket = buckets_.list[index];
  const Param& param = weight.param();
  return buffers_[static_cast<size_t>(buffer)]
      .flat(bucket.first + bucket.layout.offsets[slot], param.numel())
      .view(param.shape());
}

void ReplicatedGradients::use_buffer(int buffer) {
  current_ = buffer;
  for (const Bucket& bucket : buckets_.list)
    for (Weight* weight : bucket.weights) weight->set_grad(slice(buffer, *weight));
}

std::vector<int64_t> ReplicatedGradients::micro_batches_of_step(int64_t num_micro_batches) const {
  return shares_.own_micro_batches(num_micro_batches);
}

void ReplicatedGradients::begin_step(int64_t num_micro_batches) {
  const int64_t num_leaves = shares_.num_leaves(num_micro_batches);
  if (reduce_ == Reduce::tree && (num_leaves != num_leaves_ || shares_.are_set())) {
    int most = 0;
    for (int rank = 0; rank < group_.size() && rank < num_leaves; ++rank)
      most = std::max(most, plan_pass(shares_.leaves(num_micro_batches, rank), num_leaves).num_buffers);
    reserve_buffers(static_cast<size_t>(most));
  }
  num_micro_batches_ = num_micro_batches;
  num_leaves_ = num_leaves;
  leaves_ = shares_.own_leaves(num_micro_batches);
  for (const Partial& partial : partials_) free_buffers_.push_back(partial.buffer);
  if (partials_.empty()) free_buffers_.push_back(current_);
  std::sort(free_buffers_.rbegin(), free_buffers_.rend());  // lowest first: the same buffers every step
  partials_.clear();
  works_.clear();
  for (size_t b = 0; b < pending_.size(); ++b) pending_[b] = buckets_.list[b].weights.size();
  next_bucket_ = 0;
}

WeightReady ReplicatedGradients::begin_micro_batch(int64_t micro_batch) {
  leaf_ = shares_.own_leaf(micro_batch, num_micro_batches_);
  const bool first = leaf_ == leaves_.first, last = leaf_ + 1 == leaves_.second;
  if (first || reduce_ == Reduce::tree) {
    use_buffer(take_buffer());
    for (const Bucket& bucket : buckets_.list)
      for (Weight* weight : bucket.weights) weight->begin_grad();
  }
  if (reduce_ == Reduce::tree) {
    partials_.push_back({{leaf_, leaf_ + 1}, current_});
  } else if (first) {
    partials_.push_back({{group_.rank(), group_.rank() + 1}, current_});
  }
  if (!last) return {};
  plan_last_micro_batch();
  return [this](Weight& weight) { weight_ready(weight); };
}

// Plans the additions that the newest partial sum allows: neighbours that together are a node of the tree. After the
// rank's last micro-batch they are done bucket by bucket, as the backward pass completes buckets.
void ReplicatedGradients::plan_last_micro_batch() {
  last_merges_.clear();
  if (reduce_ == Reduce::fast) return;
  while (partials_.size() >= 2) {
    const Partial right = partials_.back();
    Partial& left = partials_[partials_.size() - 2];
    if (!are_one_node(left.range, right.range, num_leaves_)) return;
    last_merges_.push_back({left.buffer, right.buffer});
    left.range.second = right.range.second;
    partials_.pop_back();
    free_buffers_.push_back(right.buffer);
  }
}

void ReplicatedGradients::end_micro_batch() {
  for (const Bucket& bucket : buckets_.list)
    for (Weight* weight : bucket.weights) weight->end_grad();
  if (leaf_ + 1 == leaves_.second) {
    for (size_t bucket = 0; bucket < pending_.size(); ++bucket)
      check(pending_[bucket] == 0, "data parallel: bucket {} is not complete after the backward pass",
            bucket);
    return;
  }
  plan_last_micro_batch();
  for (const Merge& merge : last_merges_) add_buffer(merge.into, merge.from, 0, buckets_.total);
}

void ReplicatedGradients::weight_ready(Weight& weight) {
  const size_t index = buckets_.of(weight).bucket;
  check(pending_[index] > 0, "data parallel: weight '{}' was completed twice", weight.use());
  weight.end_grad();
  --pending_[index];
  for (; next_bucket_ < pending_.size() && pending_[next_bucket_] == 0; ++next_bucket_)
    start_reduce(next_bucket_);
}

void ReplicatedGradients::begin_pass() {
  pass_ =
      reduce_ == Reduce::tree ? plan_pass(leaves_, num_leaves_) : plan_running_sum(leaves_, group_.rank());
  std::vector<int> buffers;
  for (int i = 0; i < pass_.num_buffers; ++i) buffers.push_back(take_buffer());
  const auto taken = [&](int& buffer) { buffer = buffers[static_cast<size_t>(buffer)]; };
  for (PassPlan::MicroBatch& micro_batch : pass_.micro_batches) {
    taken(micro_batch.buffer);
    for (Merge& merge : micro_batch.merges) taken(merge.into), taken(merge.from);
  }
  for (size_t i = pass_.left.size(); i < buffers.size(); ++i)
    free_buffers_.push_back(buffers[i]);  // free once the pass has ended
  for (Partial& partial : pass_.left) taken(partial.buffer);
  partials_ = pass_.left;
  last_merges_ = pass_.micro_batches.back().merges;
  leaf_ = leaves_.second - 1;
  use_buffer(pass_.micro_batches.front().buffer);
  for (const Bucket& bucket : buckets_.list)
    for (Weight* weight : bucket.weights) weight->begin_grad();
}

void ReplicatedGradients::weight_ready(Weight& weight, int64_t micro_batch) {
  const int64_t leaf = shares_.own_leaf(micro_batch, num_micro_batches_);
  if (leaf + 1 == leaves_.second) return weight_ready(weight);
  if (reduce_ == Reduce::fast) return;
  weight.end_grad();
  const auto index = static_cast<size_t>(leaf - leaves_.first);
  for (const Merge& merge : pass_.micro_batches[index].merges) {
    Tensor sum = slice(merge.into, weight);
    kernels_of(sum).elementwise.accumulate(sum.queue(), sum, slice(merge.from, weight));
  }
  weight.set_grad(slice(pass_.micro_batches[index + 1].buffer, weight));
  weight.begin_grad();
}

void ReplicatedGradients::add_buffer(int into, int from, int64_t first, int64_t count) {
  Tensor sum = buffers_[static_cast<size_t>(into)].flat(first, count);
  const Tensor other = buffers_[static_cast<size_t>(from)].flat(first, count);
  kernels_of(sum).elementwise.accumulate(sum.queue(), sum, other);
}

void ReplicatedGradients::start_reduce(size_t index) {
  const Bucket& bucket = buckets_.list[index];
  const int64_t total = bucket.layout.total();
  for (const Merge& merge : last_merges_) add_buffer(merge.into, merge.from, bucket.first, total);
  if (start_compressed(index)) return;
  if (arena_.queue().device() == Device::null) return;
  std::vector<TreeNode> nodes;
  for (const Partial& partial : partials_) {
    const Tensor slice = buffers_[static_cast<size_t>(partial.buffer)].flat(bucket.first, total);
    nodes.push_back({partial.range.first, partial.range.second, slice.data<float>()});
  }
  start_sum(index, nodes);
}

Tensor ReplicatedGradients::sum_of(size_t index) const {
  const Bucket& bucket = buckets_.list[index];
  return buffers_[static_cast<size_t>(partials_.front().buffer)].flat(bucket.first, bucket.layout.total());
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
  for (Work& work : works_) clock_.wait(work, "wait for gradients");
  works_.clear();
  if (compressed_ != nullptr) compressed_->finish(clock_);
  use_buffer(partials_.front().buffer);
}

Tensor ReplicatedGradients::piece(Weight& weight) {
  const auto [index, slot] = buckets_.of(weight);
  const ShardLayout& layout = buckets_.list[index].layout;
  if (layout.rows == 1 || (compressed_ != nullptr && !compressed_->sums())) return slice(current_, weight);
  const FlatRange range = layout.piece(slot, group_.rank() % layout.rows);
  return buffers_[static_cast<size_t>(current_)].flat(
      buckets_.list[index].first + layout.offsets[slot] + range.first, range.count());
}

}  // namespace athanor::parallel::data
