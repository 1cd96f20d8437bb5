// Gradients of which every rank keeps a share (ZeRO 2 and 3; Rajbhandari et al., "ZeRO: memory optimizations toward
// training trillion parameter models", 2020): flat f32 shards, one row of each bucket. A bucket has memory from
// the first gradient of a grain that is put into it until its sum over the ranks has been scattered, which happens for
// every grain. Grains are dealt out in turn, so the grains of a round are neighbours:
//
//   Reduce::fast   the grains of a round are added in the order of the ranks, the rounds one after the other. Where every
//                  rank has one grain of the step that is the order of ZeRO 0 and 1, too; with more it cannot be: they
//                  add up each rank's grains first, so n sums of each element would have to be kept.
//   Reduce::tree   each row goes to its owner as it is, who adds it to the partial sums of its shard (round_plan.h):
//                  the same bits as in one process. Costs one more bucket to receive into and up to
//                  ceil(log2 rounds) + 1 shards (ceil(log2 grains) where n is no power of two).
//
// Context parallelism: `parts` neighbours compute one grain, each its tokens (round_plan.h has their leaves of the tree).
//
// With `compressed` (fast only) each rank codes its whole bucket in every round (compressed_gradients.h), and the owner of
// a row adds up what it decodes: a round is what a step is with ZeRO 1. What error feedback keeps goes from round to round.
//
// Hybrid sharding: `across` are the ranks that keep the same share in other groups of ranks, each of which takes
// neighbouring grains; once a step the sums of a share are added across, a bucket at a time, when its last round is over:
// in the order of the groups, or in the tree. `compressed` are these sums then: each rank codes its share.
//
// Offload: the shards lie on disk (bucket_file.h), a bucket's row is read while the gradients that are added to it are
// on the wire, and written behind.
//
// A bucket (kind `communication`) is open from its first gradient to its last; at most kInFlight more are on the wire.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "athanor/parallel/bucket_file.h"
#include "athanor/parallel/buckets.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/gradient_sum.h"
#include "athanor/parallel/grain_log.h"
#include "athanor/parallel/round_plan.h"

namespace athanor {

class ShardedGradients final : public GradientSum, private GradSource {
 public:
  ShardedGradients(const Buckets& buckets, Group& group, Arena& arena, Reduce reduce, WaitClock& clock,
                   GrainLog& log, int parts = 1, Group* across = nullptr, const DiskPlace& place = {},
                   CompressedGradients* compressed = nullptr);
  ~ShardedGradients() override;

  void share_grains(std::vector<int64_t> counts) override;
  std::vector<int64_t> grains_of_step(int64_t num_grains) const override;
  void begin_step(int64_t num_grains) override;
  WeightReady begin_grain(int64_t grain) override;
  void begin_pass() override;
  void weight_ready(Weight& weight, int64_t /*grain*/) override { weight_ready(weight); }
  void end_grain() override;
  bool begin_idle_round() override;
  void finish() override;
  Tensor piece(Weight& weight) override;
  bool is_resident() const override { return !file_; }
  void keep_piece() override {
    if (file_) file_->changed();
  }
  uint64_t buffer_bytes() const override {
    return file_ ? 0 : static_cast<uint64_t>(buckets_.row_total) * sizeof(float);
  }

 private:
  static constexpr size_t kInFlight = 2;

  struct Reduction {
    size_t bucket;
    Tensor sent, received;  // [rows, count]
    Tensor first_sum;       // of the first round: the shard's row, which it goes into
    std::shared_ptr<const RoundPlan> plan;
    int64_t round;
    Work work;
    bool is_coded = false;
  };

  void need(Weight& weight) override;
  LeafRange grains_of_group(int64_t num_grains) const;
  int grains_of_round(int64_t round) const;
  int64_t per_round() const { return group_.size() / parts_; }
  void weight_ready(Weight& weight);
  void complete(size_t bucket);
  void complete_without_grain(size_t bucket);
  void start_sum(Reduction& reduction);
  bool is_coded() const { return compressed_ != nullptr && compressed_->active(); }
  void end_oldest();
  void read_ahead(size_t bucket);
  void add_round(const Reduction& done);
  void start_across(size_t bucket);
  void finish_across();
  // A bucket's row of a partial sum; fresh: what is in it does not count. close() says that it was changed.
  Tensor open(int buffer, size_t bucket, bool fresh);
  void close(int buffer, size_t bucket, const Tensor& row);

  const Buckets& buckets_;
  Group& group_;
  Arena& arena_;
  Reduce reduce_;
  WaitClock& clock_;
  GrainLog& log_;
  const int parts_;
  Group* across_;
  CompressedGradients* compressed_;  // of rounds; with `across` of their sums
  std::vector<Tensor> shards_;       // partial sums, flat f32 [row_total]
  std::optional<BucketFile> file_;   // in their place
  std::vector<Tensor> open_;         // by bucket: flat f32 [rows, count], undefined while it has no memory
  std::vector<size_t> pending_;      // weights of each bucket that this round has not completed
  std::vector<int64_t> done_;        // rounds of each bucket
  std::deque<Reduction> in_flight_;

  int64_t all_grains_ = 0;                    // of the step
  int64_t first_grain_ = 0, num_grains_ = 0;  // of this group
  int64_t round_ = -1;
  std::vector<std::shared_ptr<const RoundPlan>> plans_;  // in the tree, of each round
  std::vector<RoundPlanner::Node> left_;                 // and what is left of all, the first in buffer 0
  struct Across {
    size_t bucket;
    std::vector<Tensor> nodes;  // the first one gets the sum
    Work work;
  };
  std::deque<Across> across_works_;
};

}  // namespace athanor
