// Gradients of hybrid sharding where every rank has them whole (ZeRO 1): replicated_gradients.h among all ranks, but of
// a fast sum a bucket is scattered within the group that shares one set of shards, and each share is then summed across the
// groups: less goes over the slow links between them than of one sum over all ranks, and the order of sums is another.
//
//   HybridGradients gradients(buckets, all, inner, across, arena, Reduce::fast, clock);
//
// With `compressed` (fast only) the ranks of a group sum exactly, and the groups exchange codes of their sums. Where shares
// are coded the way inside stays; else a bucket is summed on the one rank that codes it, and its rows are dealt out again.
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
  bool start_compressed(size_t bucket, const Tensor& buffer) override;

 private:
  struct Inside {  // on its way to this rank, or to the one that codes it
    Work work;
    size_t bucket;
    float* whole;  // [rows, count]
    Tensor coded;  // of all buckets; undefined: not to be coded
  };
  float* share(const Inside& sum) const;
  void start_inside(size_t bucket, float* whole, const Tensor& coded);
  void sum_oldest_across();
  void deal_out_rows();

  const Buckets& buckets_;
  Group& inner_;
  Group& across_;
  Reduce reduce_;
  WaitClock& clock_;
  CompressedGradients* compressed_;
  std::deque<Inside> inside_;  // one is on its way while the backward pass completes the next
  std::vector<Inside> dealt_;  // to be dealt out when they are summed
};

}  // namespace athanor
