#include "athanor/parallel/data/hybrid_gradients.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::parallel::data {

HybridGradients::HybridGradients(const Buckets& buckets, Group& all, Group& inner, Group& across,
                                 Arena& arena, Reduce reduce, WaitClock& clock, int parts,
                                 CompressedGradients* compressed)
    : ReplicatedGradients(buckets, all, arena, reduce, clock, parts, compressed),
      inner_(inner),
      across_(across),
      reduce_(reduce),
      compressed_(compressed) {
  check(all.size() == inner.size() * across.size() && inner.rank() == all.rank() % inner.size(),
        "hybrid sharding: got {} groups of {} ranks and number {} of them for rank {} of {}", across.size(),
        inner.size(), inner.rank(), all.rank(), all.size());
}

void HybridGradients::begin_step(const GradientStep& step) {
  scattered_.clear();  // left over if a step failed
  ReplicatedGradients::begin_step(step);
}

void HybridGradients::start_sum(size_t bucket, const std::vector<TreeNode>& nodes) {
  if (reduce_ == Reduce::tree) return ReplicatedGradients::start_sum(bucket, nodes);
  scatter(bucket);
}

bool HybridGradients::start_compressed(size_t bucket) {
  if (compressed_ == nullptr || !compressed_->active()) return false;
  scatter(bucket);
  return true;
}

void HybridGradients::scatter(size_t bucket) {
  const Tensor whole = sum_of(bucket);
  const int64_t count = buckets_.list[bucket].layout.count;
  Scatter next{.bucket = bucket, .share = whole.flat(inner_.rank() * count, count), .work = {}};
  if (whole.queue().device() != Device::null)
    next.work = inner_.reduce_scatter(whole.data<float>(), next.share.data<float>(), count, Dtype::f32,
                                      "gradients " + std::to_string(bucket));
  while (!scattered_.empty()) sum_oldest_across();
  scattered_.push_back(std::move(next));
}

void HybridGradients::sum_oldest_across() {
  Scatter oldest = std::move(scattered_.front());
  scattered_.pop_front();
  clock_.wait(oldest.work, "wait for gradients");
  if (compressed_ != nullptr && compressed_->active())
    compressed_->start(oldest.bucket, oldest.share);
  else
    keep(across_.all_reduce(oldest.share.data<float>(), oldest.share.numel(), Dtype::f32,
                            "gradients across groups"));
}

void HybridGradients::finish() {
  while (!scattered_.empty()) sum_oldest_across();
  ReplicatedGradients::finish();
}

}  // namespace athanor::parallel::data
