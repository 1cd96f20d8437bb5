// Data parallelism: ranks compute the gradients of different grains of a step (a grain is one micro-batch), and the
// gradients are summed while the backward pass still runs. ZeRO: of what all ranks would have alike, each keeps a share.
//
//   DataParallel parallel(model.weights(), group, arena, options);   // before model.allocate()
//   parallel.allocate();                                              // after it
//   parallel.begin_step(num_grains);
//   for (int64_t grain : parallel.grains_of_step(num_grains)) {
//     Tape tape; parallel.begin_grain(tape, grain); ... tape.backward(loss); parallel.end_grain();
//   }
//   // or, in a pipeline: begin_pass(); for each grain in order weight_ready(weight, grain) ...; end_pass();
//   parallel.finish();                            // waits; what parallel.grad(param) says is complete
//   ... optimizer.step(parallel.grad) ...
//   parallel.publish();                           // the ranks tell each other the values that they have updated
//
// stage (docs/parallelism.md has bytes and traffic):
//   0   all is replicated: replicated_gradients.h
//   1   the optimizer's state is sharded: each rank updates its share, and values are gathered (gathered_values.h)
//   2   gradients are sharded, too, and scattered for every grain: sharded_gradients.h
//   3   values are sharded, too, gathered when they are needed and freed after use
//
// Offload: gradients may lie on disk in every stage, values in stage 3, where a group of one then has them there, too.
//
// Hybrid sharding (Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded data parallel", 2023): stages 1 to 3
// within `group`, some of the ranks; `across` are the ranks that keep the same share, in other groups, and `all` all of
// them, group after group. Values are gathered within the group, of gradients each share is summed across, once a step.
// `all` without `across`: the group is of one, which alone keeps what it keeps, and sums it over all.
//
// Context parallelism: `parts` neighbours of the group compute one grain, each the gradient of its own tokens. They are
// ranks like others: values and gradients are shared out over all of them and summed in the same buckets.
//
// With Reduce::tree every stage and any number of ranks give the same bits (law 5); with Reduce::fast stages 0 and 1
// give the same bits, as do 2 and 3, and all of them where each rank has one grain of the step. The uses of a shared
// parameter are reduced apart and added afterwards, in the order they were declared (law 1). A group of one is serial
// training, whatever the stage. Stacks of experts may be summed over other ranks than everything else, all that have the
// same ones: of the same grains, in `expert_parts` each, or, where ranks with other experts have other grains, of as many
// grains as there are of all their ranks; then every rank must have equally many. Errors of the group surface in finish(),
// or where a value is needed.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "athanor/comm/tree.h"
#include "athanor/parallel/buckets.h"
#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/experts_apart.h"
#include "athanor/parallel/gathered_values.h"
#include "athanor/parallel/gradient_sum.h"
#include "athanor/parallel/grain_gradients.h"
#include "athanor/parallel/grain_log.h"

namespace athanor {

struct DataParallelOptions {
  Reduce reduce = Reduce::fast;
  int stage = 0;             // of ZeRO
  Dtype dtype = Dtype::f32;  // T of the values
  int64_t bucket_bytes = 16 << 20;
  Trace* trace = nullptr;
  std::function<double()> clock = now_seconds;  // of comm_seconds()
  // Of two-speed synchronisation: `group` is one island of several, which share out the grains first.
  int island = 0, num_islands = 1;
  // Reduce::fast; not of one. All but bf16 and int8: stages 0 and 1, without `across`.
  CompressionOptions compression = {};
  // Of a pipeline: weights whose gradients are not completed together have different numbers, and no bucket in common.
  std::function<int(const Weight&)> section = {};
  // Of expert and tensor parallelism: the ranks with the same experts (edp), over which their gradients are summed and,
  // with ZeRO, shared out; null: as everything else. So many neighbours of them compute the same grains, each its tokens;
  // 0: their grains are numbered apart. With hybrid sharding these are those of a set of shards, perhaps one alone, and
  // there are across and all of experts.
  Group* expert_group = nullptr;
  Group *expert_across = nullptr, *expert_all = nullptr;
  int expert_parts = 0;
  // Of context parallelism: so many neighbours of `group` compute the same grains, each its tokens.
  int parts = 1;
  Group* across = nullptr;  // hybrid sharding; null: `group` are all ranks
  Group* all = nullptr;
  // Offload: where gradients, and the values of stage 3, lie on disk (bucket_file.h).
  DiskPlace gradients_place = {}, values_place = {};
};

// The ranks that sum a parameter's gradient and share out what is updated of it, each its piece; no pieces where all
// update all of it.
struct ParamRanks {
  Group* group;
  std::vector<FlatRange> pieces;  // by rank
};

class DataParallel final : public GrainGradients {
 public:
  DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena, DataParallelOptions options);
  void allocate();  // memory for gradients

  // Stages 0 and 1: how many grains each rank (each `parts` of them) takes from the next step on (grain_balance.h); at
  // first evenly. Error where experts' grains are numbered apart.
  void share_grains(std::vector<int64_t> counts);
  // Of this rank; Error: fewer grains than ranks.
  std::vector<int64_t> grains_of_step(int64_t num_grains) const override;
  LeafRange summed_grains(int64_t num_grains) const;  // those that grad() is the sum over: the island's
  // `update`: which update of the weights the step leads to, from 1 (compression has a warm-up); `loss_scale`: what
  // its gradients are multiplied by (what compression keeps has the unit of the loss).
  void begin_step(int64_t num_grains, int64_t update = 1, double loss_scale = 1.0);
  void begin_grain(Tape& tape, int64_t grain) override;
  void end_grain() override;
  void begin_pass() override;
  void weight_ready(Weight& weight, int64_t grain) override;
  void end_pass() override { end_grain(); }
  void finish() override;
  void publish();

  // After finish(): the sum over all grains of the step, not averaged, of param.range(). Where sums_gradients() is
  // false (1-bit Adam after its warm-up), since its optimizer adds up in its own way, the sum over those of this rank, of
  // the whole parameter. From disk it is read, and stays until another is asked for.
  const Tensor& grad(Param& param) const;
  void keep_grad(Param& param, const Tensor& changed);  // what grad() gave was overwritten: on disk, too
  bool grads_stay() const { return gradients_->is_resident(); }  // all that grad() gives is in memory at once
  bool sums_gradients() const {
    return (compressed_ == nullptr || compressed_->sums()) &&
           (experts_ == nullptr || experts_->sums_gradients());
  }
  ParamRanks ranks_of(const Param& param) const;
  // Of the gradients of these parameters, in order: the squares of the whole tensors. Collective.
  std::vector<double> sum_squares(const std::vector<std::unique_ptr<Param>>& params) const;
  // The f32 values of a parameter that may be sharded, numel floats, on every rank. Collective.
  void load(const Param& param, float* values) const;

  double comm_seconds() const override;
  int64_t num_buckets() const { return static_cast<int64_t>(buckets_.list.size()); }
  // The step's sums were not finite, on all ranks: what compression has kept of them is dropped.
  void skip_step();
  // What compression keeps from step to step; checkpoints hold it (train/compression_state.h).
  std::vector<CompressionState> compression_states() const;
  uint64_t gradient_buffer_bytes() const;

 private:
  DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena, DataParallelOptions options,
               GrainLog* log);
  // Those that the gradients are summed over.
  Group& everyone() const { return options_.all != nullptr ? *options_.all : group_; }
  bool keeps_own() const {
    return compressed_ && !compressed_->sums();
  }  // its gradients, whole, not their sums
  bool has(const Param& param) const;
  bool is_expert(const Param& param) const;
  WeightReady start_grain(int64_t grain);
  void go_idle();  // through the last round, where this rank has no grain in it
  std::vector<FlatRange> pieces(const Param& param) const;  // by rank; none where it is whole
  Tensor add_uses(const Param& param);
  Tensor read_grad(const Param& param) const;

  Group& group_;
  Arena& arena_;
  DataParallelOptions options_;
  int64_t first_grain_ = 0;  // of the island
  Buckets buckets_;
  WaitClock clock_;
  GrainLog own_log_;
  GrainLog& log_;  // of experts, that of everything else: the collectives of both have one order
  std::unique_ptr<GatheredValues> values_;  // stages 1 to 3
  std::unique_ptr<CompressedGradients> compressed_;
  std::unique_ptr<GradientSum> gradients_;
  mutable std::unordered_map<const Param*, Tensor> grads_;  // of all, or the one that was read from disk last
  std::unordered_set<const Param*> final_;                  // on disk as keep_grad() put it, all uses in one
  std::unique_ptr<DataParallel> experts_;  // of weights that lie on other ranks than everything else
  ExpertGrains expert_grains_;             // of this rank and step, numbered in the island
  WeightReady own_ready_, experts_ready_;  // of the present grain, where there are experts
};

}  // namespace athanor
