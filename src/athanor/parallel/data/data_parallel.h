// Data parallelism: ranks compute the gradients of different micro-batches, and the gradients are reduced while the
// backward pass still runs. ZeRO stages 1 to 3 partition optimizer state, gradients and parameters over the ranks
// (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020).
//
//   DataParallel parallel(model.weights(), {.dense = {.sum = &group}}, arena, options);   // before model.allocate()
//   parallel.allocate();                                                                   // after it
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
// 1 to 3 act within GradientRanks::shard, and each gradient shard is summed once a step over GradientRanks::replicate,
// the ranks that hold the same shard. GradientRanks::sum: all of them, shard group by shard group.
//
// Context parallelism: consecutive ranks split the tokens of one micro-batch (GradientRanks::parts); each has the
// gradient of its own tokens and is otherwise a data-parallel rank like any other. Experts may have ranks of their own:
// those with the same experts (expert/expert_groups.h).
//
// Bits: Reduce::tree gives the same in every stage with any number of ranks (law 5). Reduce::fast gives the same in
// stages 0 and 1 and the same in 2 and 3; all four agree where each rank has one micro-batch a step. Gradients of a
// parameter's several uses are reduced separately, then added in the order of declaration (law 1). A group of one rank
// is serial training. Errors of the group surface in finish(), or where a parameter is first needed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/tree.h"
#include "athanor/parallel/data/group_gradients.h"

namespace athanor::parallel::data {

class DataParallel final : public Gradients {
 public:
  DataParallel(const std::vector<Weight*>& weights, const DataParallelRanks& ranks, Arena& arena,
               const DataParallelOptions& options);
  void allocate();  // memory for gradients

  // Stages 0 and 1; with context parallelism the counts of each `parts` ranks. Error with experts whose `parts` is 0.
  void share_micro_batches(std::vector<int64_t> counts) override;
  // Error: fewer micro-batches than ranks.
  std::vector<int64_t> micro_batches_of_step(int64_t num_micro_batches) const override;
  LeafRange summed_micro_batches(int64_t num_micro_batches) const;  // the micro-batches that grad() sums over
  void begin_step(const GradientStep& step) override;
  void end_micro_batch() override;
  void finish() override;
  void publish();
  void settle();  // waits for what publish() started: before parameters are written from elsewhere

  // After finish(): the gradient of the elements param.range(), summed (not averaged) over summed_micro_batches(). Where
  // sums_gradients() is false (1-bit Adam after its warm-up communicates in the optimizer): the gradient of the whole
  // parameter, summed over this rank's micro-batches. If offloaded: valid until the next grad().
  const Tensor& grad(Param& param) const { return of(param).grad(param); }
  void keep_grad(Param& param, const Tensor& changed) {  // writes a changed grad(param) back to disk
    of(param).keep_grad(param, changed);
  }
  bool grads_stay() const {
    return groups_.front()->store().is_resident();
  }  // all gradients are in memory at once
  bool sums_gradients() const;
  ParamRanks ranks_of(const Param& param) const { return of(param).ranks_of(param); }
  // For each parameter the sum of squares of its whole gradient, over all shards. Collective.
  std::vector<double> sum_squares(const std::vector<std::unique_ptr<Param>>& params) const;

  double comm_seconds() const override { return clock_.seconds(); }
  // Call on all ranks when the step's gradients were not finite: clears the state that exchanges took from them.
  void skip_step();
  // What an exchange keeps from step to step; checkpoints hold it (engine/compression_state.h).
  std::vector<ExchangeState> exchange_states() const;
  uint64_t buffer_bytes() const override;

 private:
  void go_idle();  // a dummy micro-batch, where the last accumulation step has none for this rank
  GroupGradients& of(const Param& param) const { return *groups_[param.is_stack() ? groups_.size() - 1 : 0]; }

  int step_part_, num_step_parts_, expert_parts_;
  WaitClock clock_;
  MicroBatchLog log_;
  std::vector<std::unique_ptr<GroupGradients>>
      groups_;  // dense parameters, then experts that have their own ranks
};

}  // namespace athanor::parallel::data
