// Gradients that every rank has whole (ZeRO 0 and 1), on disk (offload.gradients): memory holds the buckets (buckets.h)
// that the backward pass has begun, one that is being read, one that is being written and, with several ranks, one that
// is being summed.
//
//   Reduce::fast   a bucket's sum is read before the backward pass of the next grain comes to it, which adds to it in
//                  place; so the bits are those of replicated_gradients.h
//   Reduce::tree   every grain starts at zero; when its bucket is complete the partial sums that it ends are read and
//                  added in the fixed binary tree of comm/tree.h
//
// `parts` neighbours compute one grain, each its tokens (grain_shares.h).
//
// A bucket of the last grain is summed over the ranks as soon as it is complete, while the backward pass goes on. Each
// bucket counts its own grains, so those of a pipeline may be under way together: a stage's part of a backward pass
// completes the buckets that it begins. After finish() piece() reads what is asked for; the last bucket that was read
// stays. Errors: IoError, as store/disk_records.h, and the group's. Thread rule: one thread.
#pragma once

#include <optional>

#include "athanor/parallel/bucket_file.h"
#include "athanor/parallel/buckets.h"
#include "athanor/parallel/gradient_sum.h"
#include "athanor/parallel/grain_shares.h"
#include "athanor/parallel/pass_plan.h"

namespace athanor {

class DiskGradients final : public GradientSum, private GradSource {
 public:
  DiskGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce, WaitClock& clock,
                int parts, const DiskPlace& place);
  ~DiskGradients() override;

  void share_grains(std::vector<int64_t> counts) override { shares_.set(std::move(counts)); }
  std::vector<int64_t> grains_of_step(int64_t num_grains) const override;
  void begin_step(int64_t num_grains) override;
  WeightReady begin_grain(int64_t grain) override;
  void begin_pass() override {}
  void weight_ready(Weight& weight, int64_t grain) override;
  void end_grain() override {}
  void finish() override;
  bool is_resident() const override { return false; }
  Tensor piece(Weight& weight) override;  // until the next call
  void keep_piece() override { file_.changed(); }
  uint64_t buffer_bytes() const override { return 0; }

 private:
  // A bucket that is summed over the ranks: nodes[0] gets the sum.
  struct Summing {
    size_t bucket;
    std::vector<Tensor> nodes;
    Work work;
  };

  void need(Weight& weight) override;
  void read_next(size_t bucket);
  void close(size_t bucket);
  void sum_over_ranks(size_t bucket, int set, const Tensor& sum);
  void finish_sum();
  size_t set_of_sum() const { return static_cast<size_t>(plan_.left.front().buffer); }

  const Buckets& buckets_;
  Group& group_;
  Arena& arena_;
  Reduce reduce_;
  WaitClock& clock_;
  BucketFile file_;
  GrainShares shares_;
  int64_t num_grains_ = 0;
  LeafRange leaves_{0, 0};
  PassPlan plan_;                // its buffers are sets of the file
  std::vector<Tensor> open_;     // buckets that the backward pass has begun: f32 [total]
  std::vector<size_t> pending_;  // weights of each bucket that its grain has not completed
  std::vector<size_t> done_;     // grains of each bucket
  std::optional<Summing> summing_;
};

}  // namespace athanor
