#include "athanor/parallel/hybrid_gradients.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor {

HybridGradients::HybridGradients(const Buckets& buckets, Group& all, Group& inner, Group& across,
                                 Arena& arena, Reduce reduce, WaitClock& clock, int parts,
                                 CompressedGradients* compressed)
    : ReplicatedGradients(buckets, all, arena, reduce, clock, parts),
      buckets_(buckets),
      inner_(inner),
      across_(across),
      reduce_(reduce),
      clock_(clock),
      compressed_(compressed) {
  check(all.size() == inner.size() * across.size() && inner.rank() == all.rank() % inner.size(),
        "hybrid sharding: got {} groups of {} ranks and number {} of them for rank {} of {}", across.size(),
        inner.size(), inner.rank(), all.rank(), all.size());
}

void HybridGradients::begin_step(int64_t num_grains) {
  inside_.clear();  // of a step that failed
  dealt_.clear();
  ReplicatedGradients::begin_step(num_grains);
}

float* HybridGradients::share(const Inside& sum) const {
  return sum.whole + inner_.rank() * buckets_.list[sum.bucket].layout.count;
}

void HybridGradients::start_sum(size_t bucket, const std::vector<TreeNode>& nodes) {
  if (reduce_ == Reduce::tree) return ReplicatedGradients::start_sum(bucket, nodes);
  start_inside(bucket, nodes.front().data, {});
}

bool HybridGradients::start_compressed(size_t bucket, const Tensor& buffer) {
  if (compressed_ == nullptr || !compressed_->active()) return false;
  const Bucket& of = buckets_.list[bucket];
  start_inside(bucket, buffer.flat(of.first, of.layout.total()).data<float>(), buffer);
  return true;
}

void HybridGradients::start_inside(size_t bucket, float* whole, const Tensor& coded) {
  while (!inside_.empty()) sum_oldest_across();
  Inside& sum = inside_.emplace_back(Inside{.work = {}, .bucket = bucket, .whole = whole, .coded = coded});
  if (coded.defined() && coded.queue().device() == Device::null) return;
  const ShardLayout& layout = buckets_.list[bucket].layout;
  const std::string name = "gradients " + std::to_string(bucket);
  if (!coded.defined() || compressed_->codes_shares())
    sum.work = inner_.reduce_scatter(whole, share(sum), layout.count, Dtype::f32, name);
  else
    sum.work = inner_.reduce(whole, whole, layout.total(), Dtype::f32, compressed_->owner(bucket), name);
}

void HybridGradients::sum_oldest_across() {
  Inside oldest = std::move(inside_.front());
  inside_.pop_front();
  clock_.wait(oldest.work, "wait for gradients");
  if (!oldest.coded.defined())
    return keep(across_.all_reduce(share(oldest), buckets_.list[oldest.bucket].layout.count, Dtype::f32,
                                   "gradients across groups"));
  compressed_->start(oldest.bucket, oldest.coded);
  if (!compressed_->codes_shares()) dealt_.push_back(std::move(oldest));
}

void HybridGradients::deal_out_rows() {
  for (Inside& sum : dealt_)
    if (sum.coded.queue().device() != Device::null)
      sum.work = inner_.scatter(sum.whole, share(sum), buckets_.list[sum.bucket].layout.count, Dtype::f32,
                                compressed_->owner(sum.bucket), "sums of gradients");
  for (Inside& sum : dealt_) clock_.wait(sum.work, "wait for gradients");
  dealt_.clear();
}

void HybridGradients::finish() {
  while (!inside_.empty()) sum_oldest_across();
  if (compressed_ != nullptr) compressed_->finish(clock_);
  deal_out_rows();
  ReplicatedGradients::finish();
}

}  // namespace athanor
