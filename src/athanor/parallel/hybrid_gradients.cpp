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
      clock_(clock) {
  if (compressed != nullptr) exchange_.emplace(buckets, inner, *compressed, clock);
  check(all.size() == inner.size() * across.size() && inner.rank() == all.rank() % inner.size(),
        "hybrid sharding: got {} groups of {} ranks and number {} of them for rank {} of {}", across.size(),
        inner.size(), inner.rank(), all.rank(), all.size());
}

void HybridGradients::begin_step(int64_t num_grains) {
  scattered_.clear();  // of a step that failed
  if (exchange_) exchange_->begin_step();
  ReplicatedGradients::begin_step(num_grains);
}

void HybridGradients::start_sum(size_t bucket, const std::vector<TreeNode>& nodes) {
  if (reduce_ == Reduce::tree) return ReplicatedGradients::start_sum(bucket, nodes);
  const int64_t count = buckets_.list[bucket].layout.count;
  float *whole = nodes.front().data, *share = whole + inner_.rank() * count;
  while (!scattered_.empty()) sum_oldest_across();
  scattered_.push_back(
      {inner_.reduce_scatter(whole, share, count, Dtype::f32, "gradients " + std::to_string(bucket)), share,
       count});
}

bool HybridGradients::start_compressed(size_t bucket, const Tensor& whole) {
  if (!exchange_ || !exchange_->active()) return false;
  const int64_t count = buckets_.list[bucket].layout.count;
  SetExchange::Sum sum{
      .bucket = bucket, .whole = whole, .row = whole.flat(inner_.rank() * count, count), .arriving = {}};
  const std::string name = "gradients " + std::to_string(bucket);
  if (whole.queue().device() != Device::null) {
    auto* data = whole.data<float>();
    sum.arriving = exchange_->codes_shares()
                       ? inner_.reduce_scatter(data, sum.row.data<float>(), count, Dtype::f32, name)
                       : inner_.reduce(data, data, whole.numel(), Dtype::f32, exchange_->owner(bucket), name);
  }
  exchange_->start(std::move(sum));
  return true;
}

void HybridGradients::sum_oldest_across() {
  Scatter oldest = std::move(scattered_.front());
  scattered_.pop_front();
  clock_.wait(oldest.work, "wait for gradients");
  keep(across_.all_reduce(oldest.share, oldest.count, Dtype::f32, "gradients across groups"));
}

void HybridGradients::finish() {
  while (!scattered_.empty()) sum_oldest_across();
  if (exchange_) exchange_->finish();
  ReplicatedGradients::finish();
}

}  // namespace athanor
