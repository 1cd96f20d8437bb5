// Gradients that every rank holds in full (ZeRO 0 and 1): flat f32 buffers divided into buckets. A bucket that the
// rank's last micro-batch has completed goes to a BucketSum at once, while the backward pass goes on. A rank takes
// consecutive micro-batches; however many it takes, each gradient is sent once a step. Each weight follows the plan of
// the step (pass_plan.h) by itself, so in a pipeline weights may be at different micro-batches.
//
//   Reduce::fast   a rank adds up its micro-batches in one buffer
//   Reduce::tree   every micro-batch starts at zero, and all of the step are added in the fixed binary tree of
//                  comm/tree.h. Costs up to ceil(log2 micro-batches) + 1 further buffers.
//
// With several ranks the buffers are registered with the group (Group::share), so that ranks of one host reduce them in
// place.
// With context parallelism `parts` consecutive ranks split one micro-batch (leaves of the tree: micro_batch_shares.h);
// share_micro_batches() has the counts of these sets of ranks.
#pragma once

#include <deque>
#include <memory>

#include "athanor/parallel/data/bucket_sum.h"
#include "athanor/parallel/data/pass_plan.h"

namespace athanor::parallel::data {

class ReplicatedGradients final : public GradientStore {
 public:
  ReplicatedGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce, int parts,
                      WaitClock& clock, BucketSum& sum);

  void begin_step(const GradientStep& step) override;
  void grad_ready(Weight& weight, int64_t micro_batch) override;
  void finish() override;
  Tensor piece(Weight& weight) override;
  uint64_t buffer_bytes() const override { return static_cast<uint64_t>(buckets_.total) * sizeof(float); }

 private:
  void make_buffers(size_t own, size_t most);
  Tensor slice(int buffer, const Weight& weight) const;
  void use_first_buffer();
  void add_to_tree(Weight& weight, size_t micro_batch);
  void start_reduce(size_t bucket);

  Group& group_;
  Arena& arena_;
  Reduce reduce_;
  BucketSum& sum_;
  std::deque<Tensor> buffers_;  // flat f32 [total]
  size_t num_shared_ = 0;       // registered with the group

  int64_t num_leaves_ = 0;
  PassPlan plan_;                // its buffers are those of buffers_; the sum is in the first
  std::vector<size_t> pending_;  // by bucket: weights that are not complete
  size_t next_bucket_ = 0;       // the next to reduce: in ascending order on all ranks
};

}  // namespace athanor::parallel::data
