// Data parallelism: ranks compute the gradients of different micro-batches, and the gradients are reduced while the
// backward pass still runs. ZeRO stages 1 to 3 partition optimizer state, gradients and parameters over the ranks
// (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020).
//
//   DataParallel parallel(model.weights(), group, arena, options);   // before model.allocate()
//   parallel.allocate();                                              // after it
//   parallel.begin_step({.num_micro_batches = 8});
//   ... this rank's micro-batches, as in gradients.h ...
//   parallel.finish();                            // blocks until every gradient is reduced; then grad() is valid
//   ... optimizer.step(parallel.grad) ...
//   parallel.publish();                           // all-gathers the parameters that each rank has updated
//
// stage (docs/parallelism.md has bytes and traffic):
//   0   all is replicated: replicated_gradients.h
//   1   optimizer state is partitioned; parameters are all-gathered after the update (unsharded_values.h)
//   2   gradients, too: reduce-scattered after every micro_batch (sharded_gradients.h)
//   3   parameters, too: all-gathered before use, freed after it
// Offload: gradients may lie on disk in every stage, parameters in stage 3, there also with one rank.
//
// Hybrid sharding (HSDP; Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded data parallel", 2023): stages
// 1 to 3 act within `group`, one of several shard groups. `across`: the ranks that hold the same shard, one of each
// shard group; each gradient shard is summed over them once a step. `all`: all ranks, shard group by shard group. A
// `group` of one rank with `all` but no `across` shards nothing and sums over `all`.
//
// Context parallelism: `parts` consecutive ranks split the tokens of one micro-batch; each has the gradient of its own
// tokens and is otherwise a data-parallel rank like any other. Gradients of experts may be reduced over a group of
// their own, the ranks with the same experts (expert/expert_groups.h).
//
// Bits: Reduce::tree gives the same in every stage with any number of ranks (law 5). Reduce::fast gives the same in
// stages 0 and 1 and the same in 2 and 3; all four agree where each rank has one micro-batch a step. Gradients of a
// parameter's several uses are reduced separately, then added in the order of declaration (law 1). A group of one rank
// is serial training. Errors of the group surface in finish(), or where a parameter is first needed.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "athanor/comm/tree.h"
#include "athanor/parallel/data/buckets.h"
#include "athanor/parallel/data/data_parallel_options.h"
#include "athanor/parallel/data/gradients.h"
#include "athanor/parallel/data/micro_batch_log.h"
#include "athanor/parallel/data/unsharded_values.h"
#include "athanor/parallel/expert/expert_groups.h"

namespace athanor::parallel::data {

// Which rank updates which elements of a parameter. No pieces: every rank updates the whole parameter.
struct ParamRanks {
  Group* group;
  std::vector<FlatRange> pieces;  // by rank
};

class DataParallel final : public Gradients {
 public:
  DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena, DataParallelOptions options);
  void allocate();  // memory for gradients

  // Stages 0 and 1; with context parallelism the counts of each `parts` ranks. Error with an expert_group whose
  // expert_parts is 0.
  void share_micro_batches(std::vector<int64_t> counts) override;
  // Error: fewer micro-batches than ranks.
  std::vector<int64_t> micro_batches_of_step(int64_t num_micro_batches) const override;
  LeafRange summed_micro_batches(int64_t num_micro_batches) const;  // the micro-batches that grad() sums over
  void begin_step(const GradientStep& step) override;
  void end_micro_batch() override;
  void finish() override;
  void publish();

  // After finish(): the gradient of the elements param.range(), summed (not averaged) over summed_micro_batches(). Where
  // sums_gradients() is false (1-bit Adam after its warm-up communicates in the optimizer): the gradient of the whole
  // parameter, summed over this rank's micro-batches. If offloaded: valid until the next grad().
  const Tensor& grad(Param& param) const;
  void keep_grad(Param& param, const Tensor& changed);           // writes a changed grad(param) back to disk
  bool grads_stay() const { return gradients_->is_resident(); }  // all gradients are in memory at once
  bool sums_gradients() const {
    return (compressed_ == nullptr || compressed_->sums()) &&
           (experts_ == nullptr || experts_->sums_gradients());
  }
  ParamRanks ranks_of(const Param& param) const;
  // For each parameter the sum of squares of its whole gradient, over all shards. Collective.
  std::vector<double> sum_squares(const std::vector<std::unique_ptr<Param>>& params) const;
  // The f32 values of a parameter that may be sharded, numel floats, on every rank. Collective.
  void load(const Param& param, float* values) const;

  double comm_seconds() const override;
  int64_t num_buckets() const { return static_cast<int64_t>(buckets_.list.size()); }
  // Call on all ranks when the step's gradients were not finite: clears the state that compression took from them.
  void skip_step();
  // What compression keeps from step to step; checkpoints hold it (train/engine/compression_state.h).
  std::vector<CompressionState> compression_states() const;
  uint64_t buffer_bytes() const override;

 private:
  DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena, DataParallelOptions options,
               MicroBatchLog* log);
  // The ranks that gradients are summed over.
  Group& everyone() const { return options_.all != nullptr ? *options_.all : group_; }
  bool keeps_own() const {
    return compressed_ && !compressed_->sums();
  }  // grad() is this rank's own, not a sum over ranks
  bool has(const Param& param) const;
  bool is_expert(const Param& param) const;
  void go_idle();  // a dummy micro-batch, where the last accumulation step has none for this rank
  std::vector<FlatRange> pieces(const Param& param) const;  // by rank; none where it is replicated
  Tensor add_uses(const Param& param);
  Tensor read_grad(const Param& param) const;

  Group& group_;
  Arena& arena_;
  DataParallelOptions options_;
  Buckets buckets_;
  WaitClock clock_;
  MicroBatchLog own_log_;
  MicroBatchLog& log_;  // experts_ uses the log of its owner: the collectives of both have one order
  std::unique_ptr<GatheredValues> values_;  // stages 1 to 3
  std::unique_ptr<CompressedGradients> compressed_;
  std::unique_ptr<GradientStore> gradients_;
  mutable std::unordered_map<const Param*, Tensor> grads_;  // all, or the one that was read from disk last
  std::unordered_set<const Param*> final_;  // written by keep_grad(): all uses are added already
  std::unique_ptr<DataParallel> experts_;   // of experts that have an expert_group
};

}  // namespace athanor::parallel::data
