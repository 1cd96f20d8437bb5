// The gradients, and the sharded values, of one parameter group: the parameters that the same ranks hold. Dense parameters
// are one group, those of experts another. DataParallel (data_parallel.h) has one of these for each, and says what the
// stages of ZeRO, hybrid sharding and compression mean.
//
//   MicroBatchLog log;
//   WaitClock clock(nullptr);
//   GroupGradients dense(weights, {.sum = &group}, arena, {.stage = 1}, clock, log);   // before the parameters' memory
//   dense.allocate();                                                                  // after it
//
// The log is that of all groups of a rank: their collectives have one order. Errors: Error for options that do not go
// together; the group's. Thread rule: one thread.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "athanor/parallel/data/bucket_sum.h"
#include "athanor/parallel/data/data_parallel_options.h"
#include "athanor/parallel/data/micro_batch_log.h"
#include "athanor/parallel/data/unsharded_values.h"

namespace athanor::parallel::data {

// Which rank updates which elements of a parameter. No pieces: every rank updates the whole parameter.
struct ParamRanks {
  Group* group;
  std::vector<FlatRange> pieces;  // by rank
};

class GroupGradients {
 public:
  GroupGradients(const std::vector<Weight*>& weights, const GradientRanks& ranks, Arena& arena,
                 const DataParallelOptions& options, WaitClock& clock, MicroBatchLog& log);
  void allocate();  // memory for gradients

  GradientStore& store() const { return *gradients_; }  // where its gradients are; after allocate()
  int num_ranks() const { return sum_ranks_.size(); }   // that gradients are summed over
  int num_sharing() const {
    return num_ranks() / ranks_.parts;
  }  // groups of ranks with the same micro-batches
  void begin_step(const GradientStep& step);
  void end_micro_batch();
  void finish();
  void publish();
  void settle();  // waits for what publish() started
  void skip_step();

  bool has(const Param& param) const;  // false for a buffer (is_state), and for parameters of another group
  const Tensor& grad(const Param& param) const;
  void keep_grad(const Param& param, const Tensor& changed);
  bool sums_gradients() const { return exchange_ == nullptr || exchange_->sums(); }
  ParamRanks ranks_of(const Param& param) const { return {&shard_ranks_, pieces(param)}; }
  // Writes the sums of squares of this group's parameters into `sums`, which has one place for each of `params`.
  void sum_squares(const std::vector<std::unique_ptr<Param>>& params, std::vector<double>& sums) const;
  std::vector<ExchangeState> exchange_states() const;

 private:
  std::vector<FlatRange> pieces(const Param& param) const;  // by rank; none where it is replicated
  Tensor add_uses(const Param& param);
  Tensor read_grad(const Param& param) const;

  GradientRanks ranks_;
  Group &sum_ranks_, &shard_ranks_;
  Arena& arena_;
  DataParallelOptions options_;
  Buckets buckets_;
  WaitClock& clock_;
  MicroBatchLog& log_;
  std::unique_ptr<GatheredValues> values_;  // ZeRO 1 to 3
  std::unique_ptr<BucketExchange> exchange_;
  std::unique_ptr<GradientStore> gradients_;
  // Of gradients_, where these are not sharded. Goes before them: after a failure it waits for what still sums there.
  std::unique_ptr<BucketSum> sum_;
  mutable std::unordered_map<const Param*, Tensor> grads_;  // all, or the one that was read from disk last
  std::unordered_set<const Param*> final_;  // written by keep_grad(): all uses are added already
};

}  // namespace athanor::parallel::data
