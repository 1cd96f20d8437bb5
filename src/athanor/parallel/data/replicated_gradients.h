// Gradients that every rank holds in full (ZeRO 0 and 1): flat f32 buffers divided into buckets. A bucket that the
// rank's last micro-batch has completed is reduced at once, while the backward pass goes on. A rank takes consecutive
// micro-batches; however many it takes, each gradient is sent once a step. Each weight follows the plan of the step
// (pass_plan.h) by itself, so in a pipeline weights may be at different micro-batches.
//
//   Reduce::fast   a rank adds up its micro_batches in one buffer; ranks are added in the order 0 ... n-1
//   Reduce::tree   every micro-batch starts at zero, and all of the step are added in the fixed binary tree of
//                  comm/tree.h. Costs up to ceil(log2 micro-batches) + 1 further buffers.
//
// Where buckets have several rows (ZeRO 1) fast sums are reduce-scattered; the tree is all-reduced. With several ranks
// the buffers come from Group::allocate_shared(), so that ranks of one host reduce them in place.
// With `compressed` (fast only) complete buckets go through compressed_gradients.h once its warm-up is over. 1-bit Adam
// then sums nothing here: piece() is this rank's own gradient of the whole parameter, in every stage.
// With context parallelism `parts` consecutive ranks split one micro-batch (leaves of the tree: micro_batch_shares.h).
// share_micro_batches(): how many consecutive micro-batches each such set of `parts` ranks takes from the next step on, the
// same counts on all ranks (load_balance.h); the default is an even split.
#pragma once

#include <deque>
#include <memory>

#include "athanor/comm/tree.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/data/gradients.h"
#include "athanor/parallel/data/micro_batch_shares.h"
#include "athanor/parallel/data/pass_plan.h"

namespace athanor::parallel::data {

class ReplicatedGradients : public GradientStore {
 public:
  ReplicatedGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce, WaitClock& clock,
                      int parts = 1, CompressedGradients* compressed = nullptr);

  void share_micro_batches(std::vector<int64_t> counts) override { shares_.set(std::move(counts)); }
  std::vector<int64_t> micro_batches_of_step(int64_t num_micro_batches) const override;
  void begin_step(const GradientStep& step) override;
  void grad_ready(Weight& weight, int64_t micro_batch) override;
  void finish() override;
  Tensor piece(Weight& weight) override;
  uint64_t buffer_bytes() const override { return static_cast<uint64_t>(buckets_.total) * sizeof(float); }

 protected:
  // Starts the reduction of a bucket over the ranks. `nodes`: this rank's partial sums, [bucket's total] each (with
  // Reduce::fast one, leaf `rank`); the first one gets the result.
  virtual void start_sum(size_t bucket, const std::vector<TreeNode>& nodes);
  // The same with compression, on the null device, too. False: gradients of this step are not compressed.
  virtual bool start_compressed(size_t bucket);
  Tensor sum_of(size_t bucket) const;  // [bucket's total]; with Reduce::fast this rank's sum
  void keep(Work work) { works_.push_back(std::move(work)); }  // finish() waits for it

 private:
  void reserve_buffers(size_t count);
  Tensor make_buffer();
  Tensor slice(int buffer, const Weight& weight) const;
  void use_first_buffer();
  void add_to_tree(Weight& weight, size_t micro_batch);
  void start_reduce(size_t bucket);

  Group& group_;
  Arena& arena_;
  Reduce reduce_;
  CompressedGradients* compressed_;
  std::deque<Tensor> buffers_;  // flat f32 [total]
  // Shared memory for as many buffers as the rank with most needs, since allocation is collective.
  std::vector<std::shared_ptr<std::byte>> reserved_;

  MicroBatchShares shares_;
  int64_t num_leaves_ = 0;
  PassPlan plan_;                // its buffers are those of buffers_; the sum is in the first
  std::vector<size_t> pending_;  // by bucket: weights that are not complete
  size_t next_bucket_ = 0;       // the next to reduce: in ascending order on all ranks
  std::vector<Work> works_;
};

}  // namespace athanor::parallel::data
