// Gradients that are partitioned over the ranks (ZeRO 2 and 3; Rajbhandari et al., "ZeRO: memory optimizations toward
// training trillion parameter models", 2020). Each rank holds a flat f32 shard, one row of every bucket. Every
// micro-batch's gradients are reduce-scattered; a bucket has memory (category `communication`) from its first gradient
// until its reduction is done, and at most kInFlight complete buckets are being reduced.
//
// In accumulation step k of n ranks, rank r computes micro-batch k n + r, so an accumulation step has consecutive ones:
//   Reduce::fast   each accumulation step is added in the order of the ranks, the steps one after the other. With one
//                  micro_batch per rank the bits are those of ZeRO 0 and 1; with more they differ, as those stages
//                  add up each rank's micro-batches first.
//   Reduce::tree   an all-to-all brings the rows to their owners, who add them to partial sums of their shard
//                  (accumulation_plan.h): the same bits as on one rank. Costs one more bucket to receive into and up to
//                  ceil(log2 accumulation steps) + 1 shards (ceil(log2 micro_batches) where n is no power of two).
//
// With context parallelism `parts` consecutive ranks split one micro-batch (accumulation_plan.h has the tree's leaves).
//
// Compression (`compressed`, fast only): in every accumulation step each rank compresses the whole bucket, and the
// owner of a row sums what it decompresses. Error-feedback residuals go from accumulation step to accumulation step.
//
// Hybrid sharding: `across` are the ranks that hold the same shard in the other shard groups. Each shard group takes
// consecutive micro-batches. Once a step, after the last accumulation step of a bucket, its shard is summed over
// `across`, in the order of the shard groups or in the tree. `compressed` then compresses these sums only.
//
// Offload: the shards lie on disk (bucket_file.h); rows are read while gradients are being reduced, and written behind.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "athanor/parallel/data/accumulation_plan.h"
#include "athanor/parallel/data/data_parallel_options.h"
#include "athanor/parallel/data/gradients.h"
#include "athanor/parallel/data/micro_batch_log.h"

namespace athanor::parallel::data {

class ShardedGradients final : public GradientStore {
 public:
  ShardedGradients(const Buckets& buckets, const GradientRanks& ranks, Arena& arena,
                   const DataParallelOptions& options, WaitClock& clock, MicroBatchLog& log,
                   BucketExchange* exchange = nullptr);

  std::vector<int64_t> micro_batches_of_step(int64_t num_micro_batches) const override;
  void begin_step(const GradientStep& step) override;
  void need(Weight& weight) override;
  void grad_ready(Weight& weight, int64_t micro_batch) override;
  bool takes_consecutive() const override { return false; }
  bool misses_round() const override {
    return !done_.empty() && done_.front() * per_round() < num_micro_batches_;
  }
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
    Tensor first_sum;       // in accumulation step 0: the shard's row, which receives the sum
    int64_t round;
    Work work;
    bool is_coded = false;
  };

  LeafRange micro_batches_of_group(int64_t num_micro_batches) const;
  int micro_batches_of_round(int64_t round) const;
  int64_t per_round() const { return group_.size() / parts_; }
  void complete(size_t bucket);
  void complete_without_micro_batch(size_t bucket);
  void start_sum(Reduction& reduction);
  bool is_coded() const { return exchange_ != nullptr && exchange_->active(); }
  void end_oldest();
  void read_ahead(size_t bucket);
  void add_round(const Reduction& done);
  void start_across(size_t bucket);
  void finish_across();
  // Opens a bucket's row of a partial sum; `fresh`: to overwrite it, without reading. close() has a change written.
  Tensor open(int buffer, size_t bucket, bool fresh);
  void close(int buffer, size_t bucket, const Tensor& row);

  Group& group_;
  Arena& arena_;
  Reduce reduce_;
  MicroBatchLog& log_;
  const int parts_;
  Group* across_;
  const bool in_pipeline_;          // then all ranks must have a micro-batch in every accumulation step
  BucketExchange* exchange_;        // for accumulation steps; with `across` for the sums over shard groups
  std::vector<Tensor> shards_;      // partial sums, flat f32 [row_total]
  std::optional<BucketFile> file_;  // replaces shards_ when offloaded
  std::vector<Tensor> open_;        // by bucket: flat f32 [rows, count], undefined while it has no memory
  std::vector<size_t> pending_;     // by bucket: weights that this accumulation step has not completed
  std::vector<int64_t> done_;       // by bucket: completed accumulation steps
  std::deque<Reduction> in_flight_;

  int64_t all_micro_batches_ = 0;         // of the step
  int64_t num_micro_batches_ = 0;         // of this shard group
  std::vector<RoundPlan> plans_;          // for Reduce::tree, by accumulation step
  std::vector<RoundPlanner::Node> left_;  // partial sums after the last one, the first in buffer 0
  struct Across {
    size_t bucket;
    std::vector<Tensor> nodes;  // the first one gets the sum
    Work work;
  };
  std::deque<Across> across_works_;
};

}  // namespace athanor::parallel::data
