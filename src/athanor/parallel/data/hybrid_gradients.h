// Gradients of ZeRO 1 with hybrid sharding (HSDP). A fast sum is hierarchical: each bucket is reduce-scattered within
// the shard group, then each rank's shard is all-reduced over its replicas. So the slow links between shard groups
// carry less than with one sum over all ranks; the order of additions, and with it the last bits, differ.
//
//   HybridGradients gradients(buckets, all, inner, across, arena, Reduce::fast, clock);
//
//   inner    this rank's shard group: consecutive ranks of `all`, as many as the buckets have rows
//   across   the ranks that hold the same shard, in the order of their shard groups
//   all      all ranks
//
// With `compressed` (fast only) the sums of the shard groups are exchanged compressed; each rank compresses its shard.
// Reduce::tree is one tree over `all`.
#pragma once

#include <deque>

#include "athanor/parallel/data/replicated_gradients.h"

namespace athanor::parallel::data {

class HybridGradients final : public ReplicatedGradients {
 public:
  HybridGradients(const Buckets& buckets, Group& all, Group& inner, Group& across, Arena& arena,
                  Reduce reduce, WaitClock& clock, int parts = 1, CompressedGradients* compressed = nullptr);
  void begin_step(const GradientStep& step) override;
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

  Group& inner_;
  Group& across_;
  Reduce reduce_;
  CompressedGradients* compressed_;
  // At most one reduce-scatter runs while the backward pass fills the next bucket.
  std::deque<Scatter> scattered_;
};

}  // namespace athanor::parallel::data
