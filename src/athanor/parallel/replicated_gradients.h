// Gradients as every rank has them whole (ZeRO 0 and 1): flat f32 buffers cut into buckets; a complete bucket of the
// rank's last grain starts its reduction at once. A rank takes neighbouring grains, and however many they are,
// each gradient crosses the wire once a step.
//
//   Reduce::fast   a rank adds up its grains in one buffer; ranks are added in the order 0 ... n-1
//   Reduce::tree   every grain starts at zero and the grains of the step are added in the fixed binary tree of
//                  comm/tree.h, whoever computes them. Costs up to ceil(log2 grains) + 1 further buffers.
//
// Where buckets are cut into rows (ZeRO 1), fast sums are only scattered; the tree is reduced whole. With several
// ranks the buffers lie in memory that all of them can address, so that a reduction copies nothing.
// With `compressed` (fast only) a complete bucket is its affair, once its warm-up is over; where that sums nothing (1-bit
// Adam) piece() is all that this rank has of the gradient, whatever rows there are.
// `parts` neighbours compute one grain, each its tokens (context parallelism; grain_shares.h has the leaves of the tree).
// share_grains(): how many neighbouring grains each such group of `parts` takes from the next step on, the same on all of
// them (grain_balance.h); evenly by default.
#pragma once

#include <deque>
#include <memory>

#include "athanor/comm/tree.h"
#include "athanor/parallel/buckets.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/gradient_sum.h"
#include "athanor/parallel/grain_shares.h"
#include "athanor/parallel/pass_plan.h"

namespace athanor {

class ReplicatedGradients : public GradientSum {
 public:
  ReplicatedGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce, WaitClock& clock,
                      int parts = 1, CompressedGradients* compressed = nullptr);

  void share_grains(std::vector<int64_t> counts) override { shares_.set(std::move(counts)); }
  std::vector<int64_t> grains_of_step(int64_t num_grains) const override;
  void begin_step(int64_t num_grains) override;
  WeightReady begin_grain(int64_t grain) override;
  void begin_pass() override;
  void weight_ready(Weight& weight, int64_t grain) override;
  void end_grain() override;
  void finish() override;
  Tensor piece(Weight& weight) override;
  uint64_t buffer_bytes() const override { return static_cast<uint64_t>(buckets_.total) * sizeof(float); }

 protected:
  // Starts the sum over the ranks of a bucket of which this one has these nodes ([bucket's total] each; with
  // Reduce::fast the one leaf `rank`), the first of which gets it.
  virtual void start_sum(size_t bucket, const std::vector<TreeNode>& nodes);
  // Likewise as fewer bytes; false: this step's are not compressed. On the null device, too.
  virtual bool start_compressed(size_t bucket);
  Tensor sum_of(size_t bucket) const;  // [bucket's total], with Reduce::fast what this rank has of it
  void keep(Work work) { works_.push_back(std::move(work)); }  // until finish()

 private:
  using Partial = PassPlan::Partial;  // a partial sum that this rank holds
  using Merge = PassPlan::Merge;

  void reserve_buffers(size_t count);
  Tensor make_buffer();
  int take_buffer();
  Tensor slice(int buffer, const Weight& weight) const;
  void use_buffer(int buffer);
  void plan_last_grain();
  void weight_ready(Weight& weight);
  void start_complete();
  void start_reduce(size_t bucket);
  void add_buffer(int into, int from, int64_t first, int64_t count);

  const Buckets& buckets_;
  Group& group_;
  Arena& arena_;
  Reduce reduce_;
  WaitClock& clock_;
  CompressedGradients* compressed_;
  std::deque<Tensor> buffers_;  // flat f32 [total]
  // Memory for as many buffers as any rank needs, since ranks allocate together; each rank uses what it needs.
  std::vector<std::shared_ptr<std::byte>> reserved_;
  std::vector<int> free_buffers_;

  GrainShares shares_;
  int64_t num_grains_ = 0, num_leaves_ = 0, leaf_ = 0;
  LeafRange leaves_{0, 0};
  PassPlan pass_;                   // of begin_pass()
  std::vector<size_t> pending_;     // weights of each bucket that are not complete
  size_t next_bucket_ = 0;          // to be reduced: all ranks in one order, in whichever they are completed
  std::vector<Partial> partials_;   // left to right
  std::vector<Merge> last_merges_;  // of the last grain, done bucket by bucket
  int current_ = 0;
  std::vector<Work> works_;
};

}  // namespace athanor
