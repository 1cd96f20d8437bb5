// Builds the engine of a training run from its config: model, optimizer, parallelism and step. Used by the trainer, by
// `bench step` and, on the null device, by the memory plan, so that all of them run the same code.
//
//   const Layout layout = make_layout(config, {.world_size = world.size()});
//   Groups groups(layout, world);
//   Training training(config, layout, groups, arena, {.num_channels = 1});   // declared, nothing allocated
//   training.allocate();                                                   // then initialize() or load()
//   training.runner->run(state, next_batch);
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
#include "athanor/layout/groups.h"
#include "athanor/layout/layout.h"
#include "athanor/models/sharding.h"
#include "athanor/parallel/compression/onebit_adam.h"
#include "athanor/parallel/expert/expert_parallel.h"
#include "athanor/parallel/parameter_server/server.h"
#include "athanor/parallel/parameter_server/worker.h"
#include "athanor/train/engine/offload.h"
#include "athanor/train/engine/parameter_servers.h"
#include "athanor/train/engine/replica_groups.h"
#include "athanor/train/engine/step.h"

namespace athanor::train::engine {

struct TrainingOptions {
  int64_t num_channels = 1;
  Trace* trace = nullptr;
  const std::atomic<int>* stop = nullptr;  // set by a signal
  std::function<double()> clock = now_seconds;
  const Sharding* sharding = nullptr;  // how tp splits the model's layers; null: the table of its family
  ServerLogs logs = {};                // of a parameter server
};

struct Training {
  Training(const Config& config, const Layout& layout, const Groups& groups, Arena& arena,
           const TrainingOptions& options);
  const Layout& layout() const { return layout_; }
  const Groups& groups() const { return groups_; }
  int64_t summed_micro_batches() const;  // how many of a step its gradients sum over; after allocate()
  // Overrides PassOptions::pack_weights: for a memory plan that simulates fewer micro-batches than the step has.
  void pack_weights(bool once_a_step) { step_options_.pass.pack_weights = once_a_step; }
  // Allocates parameters, optimizer state and gradient buckets; offloaded ones in files made by `env`.
  void allocate(Env& env = system_env());
  // Whether this rank owns the parameter's values, so that it initializes, saves and loads them. With parameter
  // servers a worker owns only buffers (Param::is_state), a server everything else.
  bool keeps(const Param& param) const { return client ? param.is_state() : !server || !param.is_state(); }
  void initialize(uint64_t seed);         // draws the parameters that it keeps
  void publish(const TrainState& state);  // collective: every rank gets the values that the others have set
  void rehearse();  // of a server: the sums of a step without workers, for the memory plan
  void settle();    // at the end, with servers: waits for outstanding pushes and pulls
  std::vector<int64_t> own_micro_batches() const;  // numbers of this rank's micro-batches in a step
  Gradients* gradients() const;                    // of this rank; null on parameter servers
  // Whether a forward pass is a collective, so that all ranks must run equally many (ZeRO stage 3, ep).
  bool needs_equal_passes() const { return parallel_options_.stage == 3 || exchange_; }
  HeldOutPasses held_out_passes() const;
  // This rank's slices of weights and optimizer state as the logical tensors of a checkpoint: "model.NAME",
  // "adam.m.NAME", ...
  std::vector<NamedTensor> tensors() const;
  std::string prefix()
      const;  // of the names of this rank's own tensors ("replica.1." with local SGD), else ""
  void load(const Checkpoint& checkpoint);  // reads all of tensors()

  Dtype compute;
  int64_t num_micro_batches;
  Arena& arena;
  std::unique_ptr<HostMemory> host;  // pinned host memory; null: nothing is offloaded to the host
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<DataParallel> parallel;        // null with parameter servers
  std::unique_ptr<ServerClient> client;          // set on workers of parameter servers
  std::unique_ptr<ParameterServer> server;       // set on parameter servers
  std::unique_ptr<ActivationStore> activations;  // activation offload; null: activations stay in memory
  std::unique_ptr<PipelineRunner> pipeline;      // null on parameter servers
  std::unique_ptr<OuterSync> outer;              // outer steps of local SGD; null: without
  std::unique_ptr<Steps> runner;                 // null on parameter servers

 private:
  void split_tensors(const Sharding& sharding);  // tp
  void split_experts();                          // ep
  void split_sequences();                        // cp
  void split_layers();                           // pp
  DataParallelRanks data_parallel_ranks() const;
  void allocate_served();
  void make_pipeline();
  std::vector<Optimizer::State> states_of_optimizer() const;
  std::vector<ExchangeState> exchange_states() const;

  Config config_;
  Layout layout_;
  const Groups& groups_;
  bool is_server_;
  ServerLogs logs_;
  OuterOptions outer_options_;
  OneBitAdam* onebit_ = nullptr;  // `optimizer` if it is 1-bit Adam, else null
  OptimizerOptions optimizer_options_;
  std::unique_ptr<ExpertParallel> exchange_;
  DataParallelOptions parallel_options_;
  std::unique_ptr<ContextParallel> context_;
  StepOptions step_options_;
};

// Whether a rank packs its weights once a step: train.pack_weights is set, and a step of `micro_batches` micro-batches on
// `ranks` data-parallel ranks gives each rank enough of them to pay for it.
bool packs_weights(const Config& config, int64_t micro_batches, int ranks);

TrainState first_state(const Config& config);

LrSchedule lr_schedule(const Config& config);

}  // namespace athanor::train::engine
