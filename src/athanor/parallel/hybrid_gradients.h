// Gradients of hybrid sharding where every rank has them whole (ZeRO 1): replicated_gradients.h among all ranks, but of
// a fast sum a bucket is scattered within the group that shares one set of shards, and each share is then summed across the
// groups: less goes over the slow links between them than of one sum over all ranks, and the order of sums is another.
//
//   HybridGradients gradients(buckets, all, inner, across, arena, Reduce::fast, clock);
//
// With `compressed` (fast only) the groups exchange codes of their sums, each rank those of its share.
//
// `inner` are neighbours in `all`, as many as the buckets have rows; `across` the ranks with the same share, in the order
// of their groups. Reduce::tree is the tree over all ranks.
#pragma once

#include <deque>

#include "athanor/parallel/replicated_gradients.h"

namespace athanor {

class HybridGradients final : public ReplicatedGradients {
 public:
  HybridGradients(const Buckets& buckets, Group& all, Group& inner, Group& across, Arena& arena,
                  Reduce reduce, WaitClock& clock, int parts = 1, CompressedGradients* compressed = nullptr);
  void begin_step(int64_t num_grains) override;
  void finish() override;

 protected:
  void start_sum(size_t bucket, const std::vector<TreeNode>& nodes) override;
  bool start_compressed(size_t bucket) override;

 private:
  struct Scatter {
    size_t bucket;
    Tensor share;
    Work work;
  };
  void scatter(size_t bucket);
  void sum_oldest_across();

  const Buckets& buckets_;
  Group& inner_;
  Group& across_;
  Reduce reduce_;
  WaitClock& clock_;
  CompressedGradients* compressed_;
  std::deque<Scatter> scattered_;  // one is on its way while the backward pass completes the next
};

}  // namespace athanor
