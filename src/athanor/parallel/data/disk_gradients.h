// Gradients of ZeRO 0 and 1 offloaded to disk (offload.gradients). Memory holds the buckets (buckets.h) that the
// backward pass has begun, one being read, one being written and, with several ranks, one being reduced.
//
//   Reduce::fast   a bucket's sum is read before the backward pass of the next micro-batch reaches the bucket, and the
//                  backward pass adds to it in place: the same bits as replicated_gradients.h
//   Reduce::tree   every micro-batch starts at zero. When a bucket is complete, its partial sums that can now be added
//                  are read and added in the fixed binary tree of comm/tree.h
//
// `parts` consecutive ranks split the tokens of one micro-batch (micro_batch_shares.h).
//
// A bucket of the last micro-batch is reduced over the ranks as soon as it is complete, while the backward pass goes
// on. Every bucket counts its micro-batches by itself, so in a pipeline several micro-batches may be under way. After
// finish() piece() reads the bucket of the weight; the last bucket stays in memory.
// Errors: IoError, as store/disk_records.h, and the group's. Thread rule: one thread.
#pragma once

#include <optional>

#include "athanor/parallel/data/bucket_file.h"
#include "athanor/parallel/data/bucket_sum.h"
#include "athanor/parallel/data/pass_plan.h"

namespace athanor::parallel::data {

class DiskGradients final : public GradientStore {
 public:
  DiskGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce, int parts,
                WaitClock& clock, BucketSum& sum, const DiskPlace& place);

  void begin_step(const GradientStep& step) override;
  void need(Weight& weight) override;
  void grad_ready(Weight& weight, int64_t micro_batch) override;
  void finish() override;
  bool is_resident() const override { return false; }
  Tensor piece(Weight& weight) override;  // valid until the next call
  void keep_piece() override { file_.changed(); }
  uint64_t buffer_bytes() const override { return 0; }

 private:
  // The bucket that is being reduced over the ranks.
  struct Summing {
    size_t bucket;
    std::vector<PartialSum> parts;  // the first one gets the sum
  };

  void read_next(size_t bucket);
  void close(size_t bucket);
  void sum_over_ranks(size_t bucket, int set, const Tensor& sum);
  void finish_sum();
  size_t set_of_sum() const { return static_cast<size_t>(plan_.left.front().buffer); }

  Group& group_;
  Reduce reduce_;
  BucketSum& sum_;
  BucketFile file_;
  int64_t num_leaves_ = 0;
  PassPlan plan_;                // its buffers are sets of the file
  std::vector<Tensor> open_;     // buckets that the backward pass has begun: f32 [total]
  std::vector<size_t> pending_;  // by bucket: weights that its current micro-batch has not completed
  std::vector<size_t> done_;     // by bucket: completed micro-batches
  std::optional<Summing> summing_;
};

}  // namespace athanor::parallel::data
