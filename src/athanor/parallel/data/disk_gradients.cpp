#include "athanor/parallel/data/disk_gradients.h"

#include <algorithm>
#include <utility>

#include "athanor/kernels/table.h"

namespace athanor::parallel::data {
namespace {

std::vector<BucketRow> rows_of(const Buckets& buckets) {
  std::vector<BucketRow> rows;
  for (const Bucket& bucket : buckets.list) rows.push_back({names_of(bucket), bucket.layout.total()});
  return rows;
}

}  // namespace

DiskGradients::DiskGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce, int parts,
                             WaitClock& clock, BucketSum& sum, const DiskPlace& place)
    : GradientStore(buckets, group, parts, clock),
      group_(group),
      reduce_(reduce),
      sum_(sum),
      file_("gradients", rows_of(buckets), Dtype::f32, arena, Category::gradients, place),
      open_(buckets.list.size()),
      pending_(buckets.list.size()) {}

void DiskGradients::begin_step(const GradientStep& step) {
  file_.settle();
  summing_.reset();
  sum_.begin_step();
  num_leaves_ = shares_.num_leaves(step.num_micro_batches);
  const LeafRange leaves = shares_.own_leaves(step.num_micro_batches);
  plan_ = reduce_ == Reduce::tree ? plan_pass(leaves, num_leaves_) : plan_running_sum(leaves, group_.rank());
  file_.reserve(static_cast<size_t>(plan_.num_buffers));
  done_.assign(open_.size(), 0);
  for (size_t b = 0; b < open_.size(); ++b) {
    open_[b] = {};  // left over if a step failed
    pending_[b] = buckets_.list[b].weights.size();
    for (Weight* weight : buckets_.list[b].weights) weight->drop_grad();
  }
}

void DiskGradients::need(Weight& weight) {
  const size_t index = buckets_.of(weight).bucket;
  const Bucket& bucket = buckets_.list[index];
  check(!open_[index].defined(), "gradients: '{}' is needed a second time before its bucket is reduced",
        weight.use());
  const bool adds = reduce_ == Reduce::fast && done_[index] > 0;
  Tensor flat = adds ? file_.read(0, index) : file_.fresh(index);
  if (!adds) fill_zero(flat);  // the padding between weights is checksummed, too
  open_[index] = flat;
  for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
    Weight& here = *bucket.weights[slot];
    here.set_grad(flat.flat(bucket.layout.offsets[slot], here.param().numel()).view(here.param().shape()));
    if (!adds) here.begin_grad();
  }
  if (adds) read_next(index + 1);
}

// Prefetches the bucket that the backward pass reaches next, unless this micro-batch has begun it already.
void DiskGradients::read_next(size_t index) {
  if (index == open_.size() || open_[index].defined() || done_[index] == 0) return;
  if (done_[index] < plan_.micro_batches.size() && pending_[index] == buckets_.list[index].weights.size())
    file_.read_ahead(0, index);
}

void DiskGradients::grad_ready(Weight& weight, int64_t micro_batch) {
  const size_t index = buckets_.of(weight).bucket;
  check(micro_batch == static_cast<int64_t>(done_[index]),
        "gradients on disk: got '{}' of micro-batch {}, expected micro-batch {}", weight.use(), micro_batch,
        done_[index]);
  if (!open_[index].defined()) need(weight);  // no gradient was added to it: it is zero
  weight.end_grad();
  if (--pending_[index] == 0) close(index);
}

void DiskGradients::close(size_t index) {
  const Bucket& bucket = buckets_.list[index];
  for (Weight* weight : bucket.weights) weight->drop_grad();
  pending_[index] = bucket.weights.size();
  Tensor sum = std::exchange(open_[index], {});
  const PassPlan::MicroBatch& micro_batch = plan_.micro_batches[done_[index]++];
  int set = micro_batch.buffer;
  for (const PassPlan::Merge& merge : micro_batch.merges) {
    kernels_of(sum).elementwise.accumulate(sum.queue(), sum,
                                           file_.read(static_cast<size_t>(merge.into), index));
    set = merge.into;
  }
  if (done_[index] == plan_.micro_batches.size())
    sum_over_ranks(index, set, sum);
  else
    file_.write(static_cast<size_t>(set), index, sum);
}

void DiskGradients::sum_over_ranks(size_t index, int set, const Tensor& sum) {
  finish_sum();
  summing_ = Summing{.bucket = index, .parts = {}};
  for (const auto& [range, buffer] : plan_.left)
    summing_->parts.push_back({range, buffer == set ? sum : file_.read(static_cast<size_t>(buffer), index)});
  sum_.start(index, summing_->parts, num_leaves_);
  if (group_.size() == 1) finish_sum();
}

void DiskGradients::finish_sum() {
  if (!summing_) return;
  sum_.finish();
  file_.write(set_of_sum(), summing_->bucket, std::move(summing_->parts.front().values));
  summing_.reset();
}

void DiskGradients::finish() {
  finish_sum();
  for (size_t bucket = 0; bucket < done_.size(); ++bucket)
    check(done_[bucket] == plan_.micro_batches.size(),
          "data parallel: bucket {} has the gradients of {} micro-batches, "
          "expected {}",
          bucket, done_[bucket], plan_.micro_batches.size());
}

Tensor DiskGradients::piece(Weight& weight) {
  const auto [index, slot] = buckets_.of(weight);
  const ShardLayout& layout = buckets_.list[index].layout;
  const Tensor sum = file_.look(set_of_sum(), index);
  if (index > 0) file_.read_ahead(set_of_sum(), index - 1);  // parameters are asked for in their order
  const Param& param = weight.param();
  if (layout.rows == 1) return sum.flat(layout.offsets[slot], param.numel()).view(param.shape());
  const FlatRange range = layout.piece(slot, group_.rank());
  return sum.flat(layout.offsets[slot] + range.first, range.count());
}

}  // namespace athanor::parallel::data
