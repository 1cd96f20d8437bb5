#include "athanor/parallel/hybrid_gradients.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor {

HybridGradients::HybridGradients(const Buckets& buckets, Group& all, Group& inner, Group& across,
                                 Arena& arena, Reduce reduce, WaitClock& clock, int parts)
    : ReplicatedGradients(buckets, all, arena, reduce, clock, parts),
      buckets_(buckets),
      inner_(inner),
      across_(across),
      reduce_(reduce),
      clock_(clock) {
  check(all.size() == inner.size() * across.size() && inner.rank() == all.rank() % inner.size(),
        "hybrid sharding: got {} groups of {} ranks and number {} of them for rank {} of {}", across.size(),
        inner.size(), inner.rank(), all.rank(), all.size());
}

void HybridGradients::begin_step(int64_t num_grains) {
  scattered_.clear();  // of a step that failed
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

void HybridGradients::sum_oldest_across() {
  Scatter oldest = std::move(scattered_.front());
  scattered_.pop_front();
  clock_.wait(oldest.work, "wait for gradients");
  keep(across_.all_reduce(oldest.share, oldest.count, Dtype::f32, "gradients across groups"));
}

void HybridGradients::finish() {
  while (!scattered_.empty()) sum_oldest_across();
  ReplicatedGradients::finish();
}

}  // namespace athanor
