#include "athanor/parallel/data_parallel.h"

#include <algorithm>

#include "athanor/base/clock.h"
#include "athanor/kernels/table.h"

namespace athanor {
namespace {
// Slots start at multiples of a cache line, so that no two buckets share one.
constexpr int64_t kSlotFloats = 16;
// Of a small model too, most of the reduction should run beside the backward pass.
constexpr int64_t kMinBuckets = 8;

// Neighbours that together are a node of the tree are added at once.
bool are_one_node(const LeafRange& left, const LeafRange& right, int64_t num_grains) {
  return cover_nodes(left.first, right.second, num_grains).size() == 1;
}

// The most partial sums that a rank with these grains holds at a time.
size_t most_partials(const LeafRange& grains, int64_t num_grains) {
  std::vector<LeafRange> partials;
  size_t most = 0;
  for (int64_t grain = grains.first; grain < grains.second; ++grain) {
    partials.emplace_back(grain, grain + 1);
    most = std::max(most, partials.size());
    while (partials.size() >= 2 && are_one_node(partials[partials.size() - 2], partials.back(), num_grains)) {
      const int64_t end = partials.back().second;
      partials.pop_back();
      partials.back().second = end;
    }
  }
  return most;
}
}  // namespace

DataParallel::DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena,
                           DataParallelOptions options)
    : group_(group), arena_(arena), options_(options), weights_(weights.rbegin(), weights.rend()) {
  // Backward completes weights in about the reverse order of their declaration.
  int64_t floats = 0;
  for (const Weight* weight : weights_) floats += weight->param().numel();
  const int64_t bucket_floats =
      std::clamp<int64_t>(floats / kMinBuckets, 1, std::max<int64_t>(1, options_.bucket_bytes / 4));
  for (Weight* weight : weights_) {
    const int64_t count = (weight->param().numel() + kSlotFloats - 1) / kSlotFloats * kSlotFloats;
    if (buckets_.empty() || buckets_.back().count + count > bucket_floats)
      buckets_.push_back({total_, 0, 0, 0});
    Bucket& bucket = buckets_.back();
    bucket_of_[weight] = buckets_.size() - 1;
    offset_of_[weight] = total_;
    bucket.count += count;
    ++bucket.num_weights;
    total_ += count;
  }
  reserve_buffers(1);
  use_buffer(take_buffer());
}

void DataParallel::reserve_buffers(size_t count) {
  while (group_.size() > 1 && reserved_.size() < count)
    reserved_.push_back(group_.allocate_shared(static_cast<size_t>(total_) * sizeof(float),
                                               "gradient buffer " + std::to_string(reserved_.size())));
}

Tensor DataParallel::make_buffer() {
  const size_t index = buffers_.size();
  // Cleared once: the gaps between slots are summed too.
  if (index >= reserved_.size()) return zeros(arena_, {total_}, Dtype::f32, Category::gradients);
  return {arena_.adopt(std::move(reserved_[index]), static_cast<uint64_t>(total_) * sizeof(float),
                       Category::gradients),
          0, Shape{total_}, Dtype::f32};
}

int DataParallel::take_buffer() {
  if (free_buffers_.empty()) {
    buffers_.push_back(make_buffer());
    return static_cast<int>(buffers_.size()) - 1;
  }
  const int buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

void DataParallel::use_buffer(int buffer) {
  current_ = buffer;
  const Tensor& flat = buffers_[static_cast<size_t>(buffer)];
  for (Weight* weight : weights_)
    weight->set_grad(flat.flat(offset_of_.at(weight), weight->param().numel()).view(weight->param().shape()));
}

LeafRange DataParallel::grains_of_step(int64_t num_grains) const {
  check(group_.size() <= num_grains,
        "data parallel: got {} ranks for {} grains in a step, expected at most {}", group_.size(), num_grains,
        num_grains);
  return grains_of_rank(num_grains, group_.size(), group_.rank());
}

void DataParallel::begin_step(int64_t num_grains) {
  if (options_.reduce == Reduce::tree && num_grains != num_grains_) {
    size_t most = 0;
    for (int rank = 0; rank < group_.size() && rank < num_grains; ++rank)
      most = std::max(most, most_partials(grains_of_rank(num_grains, group_.size(), rank), num_grains));
    reserve_buffers(most);
  }
  num_grains_ = num_grains;
  grains_ = grains_of_step(num_grains);
  for (const Partial& partial : partials_) free_buffers_.push_back(partial.buffer);
  if (partials_.empty()) free_buffers_.push_back(current_);
  std::sort(free_buffers_.rbegin(), free_buffers_.rend());  // lowest first: the same buffers every step
  partials_.clear();
  works_.clear();
}

void DataParallel::begin_grain(Tape& tape, int64_t grain) {
  grain_ = grain;
  const bool first = grain == grains_.first, last = grain + 1 == grains_.second;
  if (first || options_.reduce == Reduce::tree) {
    use_buffer(take_buffer());
    for (Weight* weight : weights_) weight->begin_grad();
  }
  if (options_.reduce == Reduce::tree) {
    partials_.push_back({{grain, grain + 1}, current_});
  } else if (first) {
    partials_.push_back({{group_.rank(), group_.rank() + 1}, current_});
  }
  if (last) {
    for (Bucket& bucket : buckets_) bucket.pending = bucket.num_weights;
    plan_last_grain();
    tape.on_weight_ready([this](Weight& weight) { weight_ready(weight); });
  }
}

// Which additions are due once the newest partial is complete: neighbours that together are a node of the
// tree. Those of the last grain are kept, to be done bucket by bucket as the backward pass completes them.
void DataParallel::plan_last_grain() {
  last_merges_.clear();
  if (options_.reduce == Reduce::fast) return;
  while (partials_.size() >= 2) {
    const Partial right = partials_.back();
    Partial& left = partials_[partials_.size() - 2];
    if (!are_one_node(left.range, right.range, num_grains_)) return;
    last_merges_.push_back({left.buffer, right.buffer});
    left.range.second = right.range.second;
    partials_.pop_back();
    free_buffers_.push_back(right.buffer);
  }
}

void DataParallel::end_grain() {
  for (Weight* weight : weights_) weight->end_grad();
  if (grain_ + 1 == grains_.second) {
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket)
      check(buckets_[bucket].pending == 0, "data parallel: bucket {} is not complete after the backward pass",
            bucket);
    return;
  }
  plan_last_grain();
  for (const Merge& merge : last_merges_) add_buffer(merge.into, merge.from, 0, total_);
}

void DataParallel::weight_ready(Weight& weight) {
  const size_t index = bucket_of_.at(&weight);
  check(buckets_[index].pending > 0, "data parallel: weight '{}' was completed twice", weight.use());
  weight.end_grad();
  if (--buckets_[index].pending == 0) start_reduce(index);
}

void DataParallel::add_buffer(int into, int from, int64_t first, int64_t count) {
  Tensor sum = buffers_[static_cast<size_t>(into)].flat(first, count);
  const Tensor other = buffers_[static_cast<size_t>(from)].flat(first, count);
  kernels(sum).elementwise.accumulate(sum.queue(), sum, other);
}

void DataParallel::start_reduce(size_t index) {
  const Bucket& bucket = buckets_[index];
  for (const Merge& merge : last_merges_) add_buffer(merge.into, merge.from, bucket.first, bucket.count);
  if (group_.size() == 1 || arena_.queue().device() == Device::null) return;
  const std::string name = "gradients " + std::to_string(index);
  const auto slice = [&](const Partial& partial) {
    return buffers_[static_cast<size_t>(partial.buffer)].flat(bucket.first, bucket.count).data<float>();
  };
  if (options_.reduce == Reduce::fast) {
    works_.push_back(group_.all_reduce(slice(partials_.front()), bucket.count, Dtype::f32, name));
    return;
  }
  std::vector<TreeNode> nodes;
  for (const Partial& partial : partials_)
    nodes.push_back({partial.range.first, partial.range.second, slice(partial)});
  works_.push_back(group_.all_reduce_tree(nodes, num_grains_, nodes.front().data, bucket.count, name));
}

void DataParallel::finish() {
  const double start = now_seconds();
  {
    const Span span(options_.trace, "wait for gradients", "comm");
    for (Work& work : works_) work.wait();
  }
  comm_seconds_ = now_seconds() - start;
  works_.clear();
  use_buffer(partials_.front().buffer);
  grads_.clear();
  for (Weight* weight : weights_)
    if (weight == weight->param().uses().front().get()) grads_[&weight->param()] = add_uses(weight->param());
}

// Uses of a shared parameter, in the order of declaration: the first one's slot ends with the sum. Of two the order
// does not matter, so where one (of embeddings) has but few rows, they are added to the other: that gives the
// same bits, since no gradient is -0 (sums begin at +0).
Tensor DataParallel::add_uses(const Param& param) {
  const auto& uses = param.uses();
  if (uses.size() == 2 && group_.size() == 1) {
    for (const int few : {0, 1}) {
      Weight &use = *uses[static_cast<size_t>(few)], &other = *uses[static_cast<size_t>(1 - few)];
      if (!use.knows_rows()) continue;
      Tensor sum = other.grad();
      use.move_rows(sum);
      return sum;
    }
  }
  Tensor sum = uses.front()->grad();
  for (size_t i = 1; i < uses.size(); ++i)
    kernels(sum).elementwise.accumulate(sum.queue(), sum, uses[i]->grad());
  return sum;
}

const Tensor& DataParallel::grad(Param& param) const {
  return grads_.at(&param);
}

}  // namespace athanor
