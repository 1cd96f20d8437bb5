// Builds the engine of a training run from its config: model, optimizer, parallelism and step. Used by the trainer, by
// `bench step` and, on the null device, by the memory plan, so that all of them run the same code.
//
//   const Layout layout = make_layout(config, {.world_size = world.size()});
//   Groups groups(layout, world);
//   Training training(config, layout, groups, arena, {.num_channels = 1});   // declared, nothing allocated
//   training.allocate();                                                   // then initialize() or load()
//   training.role->publish(state);
//   training.role->step(state, next_batch);
//   evaluate_channels(training.held_out_passes(), arena, channels, *groups.data, {});
//
// The config must be resolved (config/presets.h). Errors: ConfigError. Thread rule: one thread. The groups outlive the
// Training.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/config.h"
#include "athanor/engine/param_slices.h"
#include "athanor/engine/replica_groups.h"
#include "athanor/engine/role.h"
#include "athanor/engine/snapshot_slots.h"
#include "athanor/models/sharding.h"
#include "athanor/parallel/expert/expert_parallel.h"

namespace athanor::engine {

struct TrainingOptions {
  int64_t num_channels = 1;
  Trace* trace = nullptr;
  const std::atomic<int>* stop = nullptr;  // set by a signal
  std::function<double()> clock = now_seconds;
  const Sharding* sharding = nullptr;  // how tp splits the model's layers; null: the table of its family
  ServerLogs logs = {};                // of a parameter server
  SnapshotSlots* slots = nullptr;      // where the state lies and each step is kept; null: no snapshots
  const std::vector<Decision>* decisions = nullptr;  // of the run, past and future; null: none
};

struct Training {
  Training(const Config& config, const Layout& layout, const Groups& groups, Arena& arena,
           const TrainingOptions& options);
  const Layout& layout() const { return declared_.layout; }
  const Groups& groups() const { return declared_.groups; }
  SnapshotSlots* slots() const { return declared_.step.slots; }  // null: no snapshots
  // Overrides PassOptions::pack_weights: for a memory plan that simulates fewer micro-batches than the step has.
  void pack_weights(bool once_a_step) { declared_.step.pass.pack_weights = once_a_step; }
  // Allocates parameters, optimizer state and gradient buckets; offloaded ones in files made by `env`. Then there is a
  // role.
  void allocate(Env& env = system_env());
  void initialize(uint64_t seed);                  // draws the parameters that the role keeps
  std::vector<int64_t> own_micro_batches() const;  // numbers of this rank's micro-batches in a step
  // Whether a forward pass is a collective, so that all ranks must run equally many (ZeRO stage 3, ep).
  bool needs_equal_passes() const { return declared_.parallel.stage == 3 || exchange_; }
  HeldOutPasses held_out_passes() const;
  // This rank's part of weights and optimizer state as the logical tensors of a checkpoint: "model.NAME",
  // "adam.m.NAME", ...; and that as slices of a checkpoint.
  std::vector<StateTensor> state() const;
  std::vector<NamedTensor> tensors() const;
  // With slots: their list of state(); and the first snapshot, of values that are set and published (outer weights are taken
  // from them then).
  std::vector<SnapshotTensor> snapshot_tensors() const;
  void keep_first(const TrainState& state);
  // After a failure of a group: the steps of which this rank has all, the newest first. A step that broke off in its
  // update left none but what slots hold.
  std::vector<int64_t> whole_steps(const TrainState& state) const;
  // The tensors of one of them; `state` becomes that step's.
  std::vector<NamedTensor> go_back_to(int64_t step, TrainState& state) const;
  // Of the names of this rank's own tensors ("replica.1." with local SGD), else "".
  std::string prefix() const { return replica_prefix(role->outer()); }
  void load(const TensorSource& source);  // reads all of tensors()
  // The same where the slots resume a step: what lies in them is there, and the rest is read from `source`.
  void resume_in_place(const TensorSource& source);

  const Dtype compute;
  const int64_t num_micro_batches;
  Arena& arena;
  const std::unique_ptr<Model> model;
  std::unique_ptr<HostMemory> host;  // pinned host memory; null: nothing is offloaded to the host

 private:
  void load(const TensorSource& source, const std::function<bool(const std::string& name)>& is_in_place);
  void split_tensors(const Sharding& sharding);  // tp
  void split_experts();                          // ep
  void split_sequences();                        // cp
  void split_layers();                           // pp

  Declared declared_;
  std::unique_ptr<ExpertParallel> exchange_;
  std::unique_ptr<ContextParallel> context_;

 public:
  std::unique_ptr<Role> role;  // declared last, so destroyed first
};

// Whether a rank packs its weights once a step: train.pack_weights is set, and a step of `micro_batches` micro-batches on
// `ranks` data-parallel ranks gives each rank enough of them to pay for it.
bool packs_weights(const Config& config, int64_t micro_batches, int ranks);

TrainState first_state(const Config& config);

LrSchedule lr_schedule(const Config& config);

}  // namespace athanor::engine
